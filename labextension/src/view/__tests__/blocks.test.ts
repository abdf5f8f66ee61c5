import { describe, expect, it } from 'vitest';
import { BlockScanner, blocksOf, hasDefinitions } from '../markdown/blocks';

const kinds = (text: string): string[] =>
  blocksOf(text).map(block =>
    block.kind === 'code' ? `code:${block.language}` : block.source.trim()
  );

describe('blocks of markdown', () => {
  it('cuts at blank lines', () => {
    expect(kinds('one\ntwo\n\nthree')).toEqual(['one\ntwo', 'three']);
  });

  it('takes a fence for itself, blank lines and all, even right after a paragraph', () => {
    const blocks = blocksOf('so:\n```python\na = 1\n\nb = 2\n```\nand');
    expect(blocks).toEqual([
      { kind: 'text', source: 'so:\n' },
      { kind: 'code', language: 'python', code: 'a = 1\n\nb = 2', closed: true },
      { kind: 'text', source: 'and\n' }
    ]);
  });

  it('ends a fence only at one as long and of the same kind', () => {
    expect(blocksOf('````md\n```\nx\n```\n````\n')).toEqual([
      { kind: 'code', language: 'md', code: '```\nx\n```', closed: true }
    ]);
  });

  it('keeps a list together, though its items are far apart or hold paragraphs', () => {
    expect(kinds('1. a\n\n   more\n\n2. b\n\nafter')).toEqual(['1. a\n\n   more\n\n2. b', 'after']);
  });

  it('keeps an open element together', () => {
    const html = '<details>\n\n<summary>x</summary>\n\ntext\n\n</details>';
    expect(kinds(html + '\n\nafter')).toEqual([html, 'after']);
  });

  it('says the same however the text arrives', () => {
    const text = 'a\n\n- x\n\n- y\n\n```js\nf()\n\n```\n\n| a |\n|---|\n| 1 |\n\n<b>x</b>\n\nend\n';
    const scanner = new BlockScanner();
    let last = scanner.scan('');
    for (let end = 1; end <= text.length; end++) {
      last = scanner.scan(text.slice(0, end));
    }
    expect([...last.settled, last.tail]).toEqual(blocksOf(text));
  });

  it('never changes a settled block', () => {
    const text = 'a\n\nb\n```\nc\n```\n\nd\n\n1. e\n\n2. f\n\ng';
    const scanner = new BlockScanner();
    const seen: unknown[] = [];
    for (let end = 1; end <= text.length; end++) {
      const { settled } = scanner.scan(text.slice(0, end));
      expect(settled.slice(0, seen.length)).toEqual(seen);
      seen.splice(0, seen.length, ...settled);
    }
    expect(seen.length).toBeGreaterThan(3);
  });

  it('looks at a line once: the tail alone is cut anew', () => {
    const scanner = new BlockScanner();
    const long = 'word '.repeat(20) + '\n\n';
    const text = long.repeat(2000);
    const settled = scanner.scan(text).settled;
    const first = settled[0];
    expect(scanner.scan(text + 'more').settled[0]).toBe(first);
    expect(scanner.scan(text + 'more').tail).toEqual({ kind: 'text', source: 'more' });
  });

  it('knows of links that are defined elsewhere', () => {
    expect(hasDefinitions('see [x]\n\n[x]: https://a.b\n')).toBe(true);
    expect(hasDefinitions('`[x]` and [y](z)')).toBe(false);
  });
});
