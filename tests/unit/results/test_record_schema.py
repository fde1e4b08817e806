# SPDX-License-Identifier: Apache-2.0
"""The published JSON Schema of run records."""

import copy
import json
from typing import Any

import jsonschema
import testtools

from hvstack import errors, share
from hvstack.model.target import BARE_METAL
from hvstack.results import record_data, record_schema
from tests import tamper
from tests.unit.results import factory

PATH = share.SCHEMAS / f'run-record-{record_data.SCHEMA}.json'


class SchemaTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.schema: dict[str, Any] = json.loads(PATH.read_text())

    def is_valid(self, document: Any) -> bool:
        validator = jsonschema.Draft202012Validator(self.schema)
        return bool(validator.is_valid(document))

    def test_published_schema_is_that_of_the_dataclasses(self) -> None:
        """If not, run ``python -m tests.unit.results.test_record_schema``."""
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.assertEqual(record_schema.build_record_schema(), self.schema)

    def test_records_are_valid(self) -> None:
        for record in (
            factory.run('i2', 0, 100),
            factory.run(BARE_METAL, 0, 100, reason='killed'),
            *(tamper.guests(), tamper.bare_metal(), tamper.kit()),
        ):
            for complete in (record, record_data.sign(record)):
                self.assertTrue(self.is_valid(complete.document))

    def test_schema_and_parser_refuse_the_same(self) -> None:
        """Of types and keys; the parser checks the values as well."""
        document: Any = tamper.guests().document
        cases = 0
        todo: list[tuple[Any, ...]] = [()]
        while todo:
            path = todo.pop()
            parent: Any = document
            for key in path:
                parent = parent[key]
            keys = range(len(parent)) if isinstance(parent, list) else parent
            for key in keys:
                if isinstance(parent[key], dict | list):
                    todo.append((*path, key))
                for value in ('text', 7, True, [], {}, None):
                    changed = copy.deepcopy(document)
                    target = changed
                    for name in path:
                        target = target[name]
                    target[key] = value
                    cases += 1
                    try:
                        record_data.from_document(changed, 'x')
                    except errors.InputError:
                        continue
                    self.assertTrue(self.is_valid(changed), (path, key, value))
        self.assertGreater(cases, 300)


if __name__ == '__main__':
    PATH.write_text(
        json.dumps(record_schema.build_record_schema(), indent=1) + '\n'
    )
