"""The figures of the house do not rise: see ``docs/map.md`` and ``python -m bench.house``."""

from __future__ import annotations

from collections.abc import Mapping

from bench.house import (
    Module,
    benchmarks,
    families_beside_their_folders,
    floors,
    lines_of_imports,
    names_with_several_meanings,
    rooms_of_calculators,
    small_with_one_reader,
    untyped_objects,
)


def test_there_are_no_more_rooms_of_calculators(modules: Mapping[str, Module]) -> None:
    rooms = rooms_of_calculators(modules)
    assert len(rooms) <= 9
    assert sum(map(len, rooms.values())) <= 15
    assert floors(rooms) <= 4


def test_there_are_no_more_modules(modules: Mapping[str, Module]) -> None:
    assert len(modules) <= 816


def test_what_one_neighbour_reads_lives_in_it(modules: Mapping[str, Module]) -> None:
    assert len(small_with_one_reader(modules)) <= 2


def test_a_name_of_a_class_has_one_meaning(modules: Mapping[str, Module]) -> None:
    assert len(names_with_several_meanings(modules)) <= 2


def test_lines_of_imports_do_not_grow(modules: Mapping[str, Module]) -> None:
    assert sum(len(lines_of_imports(module)) for module in modules.values()) <= 13_381


def test_signatures_name_the_types_of_their_objects(modules: Mapping[str, Module]) -> None:
    assert untyped_objects(modules) <= 51


def test_a_family_of_models_is_one_folder_and_one_entry_point() -> None:
    places = families_beside_their_folders()
    # It has commands of its own, and the rooms of its folder have a contract.
    del places["text_generation"]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert len(places) >= 6


def test_what_measures_one_subject_is_one_file() -> None:
    assert len(benchmarks()) <= 40
