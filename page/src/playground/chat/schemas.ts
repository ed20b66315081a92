export const TOOLS_EXAMPLE = `[
  {
    "name": "get_weather",
    "description": "The weather in a town",
    "parameters": {
      "type": "object",
      "properties": {
        "town": { "type": "string" }
      },
      "required": ["town"]
    }
  }
]`

export const SCHEMA_EXAMPLE = `{
  "type": "object",
  "properties": {
    "name": { "type": "string" },
    "year": { "type": "integer" }
  },
  "required": ["name", "year"],
  "additionalProperties": false
}`
