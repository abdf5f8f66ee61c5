import { describe, expect, it } from 'vitest';
import { diffLines, folded } from '../diff';
import { editableInput, isInputLike, shownInput } from '../input';

const SIGNS = { same: ' ', added: '+', removed: '-' } as const;
const drawn = (before: string, after: string): string[] =>
  diffLines(before, after).map(({ kind, text }) => SIGNS[kind] + text);

describe('what changed between two texts', () => {
  it('is said line by line, what stays between what goes and what comes', () => {
    expect(drawn('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual([' a', '-b', '+x', ' c', '+d']);
    expect(drawn('', 'a\n')).toEqual(['+a']);
    expect(drawn('a\n', '')).toEqual(['-a']);
    expect(drawn('a\n', 'a')).toEqual([' a']);
  });

  it('leads from the one to the other, whatever they are', () => {
    let seed = 7;
    const next = (limit: number): number => (seed = (seed * 16807) % 2147483647) % limit;
    for (let round = 0; round < 200; round++) {
      const text = (): string =>
        Array.from({ length: next(12) }, () => 'abc'[next(3)]).join('\n') + '\n';
      const [before, after] = [text(), text()];
      const lines = diffLines(before, after);
      const side = (without: string): string[] =>
        lines.filter(({ kind }) => kind !== without).map(each => each.text);
      const split = (whole: string): string[] =>
        whole === '\n' ? [''] : whole.slice(0, -1).split('\n');
      expect(side('added')).toEqual(split(before));
      expect(side('removed')).toEqual(split(after));
      expect(lines.flatMap(each => each.before ?? [])).toEqual(
        split(before).map((_, at) => at + 1)
      );
      expect(lines.flatMap(each => each.after ?? [])).toEqual(split(after).map((_, at) => at + 1));
    }
  });

  it('is one replaced by the other when they are large and have nothing in common', () => {
    const text = (word: string): string =>
      Array.from({ length: 3000 }, (_, n) => word + n).join('\n');
    const lines = diffLines(`same\n${text('a')}`, `same\n${text('b')}`);
    expect(lines).toHaveLength(6001);
    expect(lines[0]).toEqual({ kind: 'same', text: 'same', before: 1, after: 1 });
    expect(lines[3001]).toEqual({ kind: 'added', text: 'b0', after: 2 });
  });

  it('leaves out what is far from every change', () => {
    const before = Array.from({ length: 20 }, (_, n) => String(n)).join('\n');
    const shown = folded(diffLines(before, before.replace('10', 'ten')));
    expect(
      shown.map(line => (line.kind === 'gap' ? line.lines : SIGNS[line.kind] + line.text))
    ).toEqual([7, ' 7', ' 8', ' 9', '-10', '+ten', ' 11', ' 12', ' 13', 6]);
  });
});

describe('what a tool is given', () => {
  it('is shown as people read it, and changed as what it is', () => {
    expect(shownInput('{"command":"ls -l"}')).toBe('ls -l');
    expect(editableInput('{"command":"ls -l"}')).toBe('{\n  "command": "ls -l"\n}');
    expect(shownInput('{not JSON')).toBe('{not JSON');
    expect(isInputLike('{"a": 2}', '{"a": 1}')).toBe(true);
    expect(isInputLike('{"a": 2', '{"a": 1}')).toBe(false);
    expect(isInputLike('rm x', 'ls')).toBe(true);
  });
});
