/** Runs the protocol fixtures that both languages share, and the conformance files when they are there. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REDUCERS } from '../reducers';
import type { AhpAction } from '../actions';
import type { AnyState, ChannelKind } from '../types';
import type { Reducer } from '../reducers';

const REPOSITORY = resolve(import.meta.dirname, '../../../..');
const FIXTURES = join(REPOSITORY, 'tests/protocol/fixtures');
const CONFORMANCE = process.env.AHP_CONFORMANCE_DIR ?? resolve(REPOSITORY, '../shared/conformance');

interface Case {
  description: string;
  reducer: ChannelKind;
  noop?: boolean;
  initial: AnyState;
  actions: AhpAction[];
  expected: AnyState;
}

/** Absent, undefined and null are one thing, at every depth. */
function normal(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(normal);
  }
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, entry]) => entry != null)
        .map(([key, entry]) => [key, normal(entry)])
    );
  }
  return value;
}

function frozen<T>(value: T): T {
  if (value !== null && typeof value === 'object') {
    Object.values(value).forEach(frozen);
    Object.freeze(value);
  }
  return value;
}

function cases(folder: string): { file: string; data: Case }[] {
  return readdirSync(folder)
    .filter(file => file.endsWith('.json'))
    .sort()
    .map(file => ({ file, data: JSON.parse(readFileSync(join(folder, file), 'utf8')) as Case }));
}

/** Applies the case's actions to frozen input, checking what holds of every reducer. */
function run({ reducer, initial, actions, noop }: Case): AnyState {
  const reduce = REDUCERS[reducer] as Reducer<AnyState>;
  expect(reduce, `no reducer "${reducer}"`).toBeTypeOf('function');
  let state = frozen(initial);
  for (const action of frozen(actions)) {
    const next = frozen(reduce(state, action));
    if (noop) {
      expect(next, 'a no-op returns its input').toBe(state);
    }
    expect(normal(reduce(state, action)), 'same input, same output').toEqual(normal(next));
    state = next;
  }
  return state;
}

describe('reducer fixtures', () => {
  const all = cases(join(FIXTURES, 'reducers'));

  it('are there', () => {
    expect(all.length).toBeGreaterThan(0);
  });

  it.each(all.map(({ file, data }) => [file, data] as const))('%s', (_, data) => {
    expect(normal(run(data))).toEqual(normal(data.expected));
  });
});

const reducersFolder = join(CONFORMANCE, 'reducers');

if (existsSync(reducersFolder)) {
  describe('conformance', () => {
    const superseded = new Map(
      readFileSync(join(CONFORMANCE, 'superseded.txt'), 'utf8')
        .split('\n')
        .filter(line => line.trim() !== '' && !line.startsWith('#'))
        .map(line => line.split('\t') as [string, string, string])
        .map(([file, fields, reason]) => [file, { fields, reason }])
    );

    for (const { file, data } of cases(reducersFolder)) {
      const exception = superseded.get(file);
      if (exception && exception.fields !== 'modifiedAt') {
        it.skip(`${file}: ${exception.reason}`, () => {});
        continue;
      }
      it(file, () => {
        const result = normal(run(data)) as Record<string, unknown>;
        const expected = normal(data.expected) as Record<string, unknown>;
        if (exception) {
          delete result.modifiedAt;
          delete expected.modifiedAt;
        }
        expect(result).toEqual(expected);
      });
    }
  });
} else {
  describe.skip(`conformance: no folder ${reducersFolder} (set AHP_CONFORMANCE_DIR)`, () => {
    it('is not run', () => {});
  });
}
