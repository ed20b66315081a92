"""What tests of several rooms use: each helper stands here once."""
