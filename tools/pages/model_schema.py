"""JSON Schema of a model of pydantic, the same under all its versions."""

import warnings
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, PydanticJsonSchemaWarning
from pydantic_core import CoreSchema

Schema = dict[str, Any]


class _Generator(GenerateJsonSchema):
    """Before 2.11, pydantic writes a field's default into the schema of its annotation, which other fields share."""

    def generate_inner(self, schema: CoreSchema) -> JsonSchemaValue:
        return dict(super().generate_inner(schema))


def read_model_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON Schema of a model.

    Versions of pydantic differ in whether a limit is 1 or 1.0; here it is 1.
    """
    with warnings.catch_warnings(action="ignore", category=PydanticJsonSchemaWarning):  # of defaults that are no JSON
        schema: Schema = _round_limits(model.model_json_schema(schema_generator=_Generator))
    return schema


def _round_limits(value: Any) -> Any:  # noqa: ANN401 - JSON is anything
    if isinstance(value, dict):
        return {key: _round_limits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_round_limits(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
