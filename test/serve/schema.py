# SPDX-License-Identifier: MIT
"""JSON against the schemas of openapi.json: the keywords that file uses, and no others. Stricter than JSON Schema in one point: a member
that a schema does not name is an error, since the file would then leave out something that the server sends."""
import json
import os

with open(os.path.join(os.environ['HOLDFAST_SOURCE'], 'see', 'serve', 'openapi.json')) as file:
    API = json.load(file)
EVENTS = API['paths']['/api/v1/watch']['get']['responses']['200']['content']['text/event-stream']['x-events']
WORDS = {'type', 'properties', 'required', 'items', 'enum', 'const', 'description', '$ref'}
IS = {'object': lambda value: isinstance(value, dict), 'array': lambda value: isinstance(value, list),
      'string': lambda value: isinstance(value, str), 'boolean': lambda value: isinstance(value, bool),
      'integer': lambda value: isinstance(value, int) and not isinstance(value, bool), 'null': lambda value: value is None}


def resolve(reference):
    start, *path = reference.split('/')
    assert start == '#', reference
    found = API
    for part in path:
        found = found[part]
    return found


def references(value):
    """Every $ref below a value."""
    if isinstance(value, dict):
        if '$ref' in value:
            yield value['$ref']
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


def check(schema, value, where):
    """AssertionError, with the place of the value, unless it has the form."""
    if '$ref' in schema:
        check(resolve(schema['$ref']), value, where)
        return
    assert set(schema) <= WORDS, '%s: this checker does not know %s' % (where, set(schema) - WORDS)
    if 'const' in schema:
        assert value == schema['const'], '%s: %r' % (where, value)
    if 'enum' in schema:
        assert value in schema['enum'], '%s: %r' % (where, value)
    if 'type' in schema:
        types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
        assert any(IS[name](value) for name in types), '%s: %r is no %s' % (where, value, types)
    if isinstance(value, dict):
        missing, unknown = set(schema.get('required', ())) - set(value), set(value) - set(schema['properties'])
        assert not missing and not unknown, '%s: missing %s, unknown %s' % (where, missing, unknown)
        for name, member in value.items():
            check(schema['properties'][name], member, where + '.' + name)
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(schema['items'], item, '%s[%d]' % (where, i))


def check_event(event, data):
    assert event in EVENTS, 'openapi.json has no event %s' % event
    check(EVENTS[event], data, event)


def check_answer(path, method, code, answer):
    responses = API['paths'][path][method]['responses']
    check(responses[str(code)]['content']['application/json']['schema'], answer, path)
