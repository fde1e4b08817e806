# SPDX-License-Identifier: Apache-2.0
"""JSON Schema of the files of run records."""

from hvstack.results.record_data import OPTIONAL_KEYS, SCHEMA, StoredRecord
from hvstack.results.typed_json import JsonObject, build_properties


def build_record_schema() -> JsonObject:
    """Return the JSON Schema of a record's file."""
    properties: JsonObject = {
        **build_properties(StoredRecord),
        'schema': {
            'type': 'integer',
            'const': SCHEMA,
            'description': 'layout of the file',
        },
        'digest': {
            'type': 'string',
            'description': 'SHA-256 of the content',
        },
    }
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'Run record of hvstack',
        'type': 'object',
        'properties': properties,
        'required': sorted(set(properties) - OPTIONAL_KEYS),
        'additionalProperties': False,
    }
