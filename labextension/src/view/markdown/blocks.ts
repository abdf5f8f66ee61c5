/**
 * Markdown cut into blocks that can be parsed one by one, so that a growing answer is parsed at its tail alone.
 *
 * A block ends at a blank line before a line that starts something new. It does not end inside a fence, an HTML
 * element that is still open, or a list, whose items may be far apart. Fences at the margin are blocks of their own:
 * their text can grow without any parsing.
 */

export interface TextBlock {
  readonly kind: 'text';
  readonly source: string;
}

export interface CodeBlock {
  readonly kind: 'code';
  readonly language: string;
  readonly code: string;
  /** Whether the closing fence has come. */
  readonly closed: boolean;
}

export type Block = TextBlock | CodeBlock;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)/;
const HTML = /^ {0,3}<([a-z][a-z0-9-]*)[\s/>]/i;
const VOID = /^(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)$/i;

function opens(line: string, tag: string): number {
  const all = (pattern: string): number => line.match(new RegExp(pattern, 'gi'))?.length ?? 0;
  return all(`<${tag}(?=[\\s/>])`) - all(`</${tag}\\s*>`);
}

/** Scans text that only grows; each line is looked at once. */
export class BlockScanner {
  private readonly _settled: Block[] = [];
  /** Where the block that is still open starts. */
  private _start = 0;
  /** The first line that was not looked at. */
  private _at = 0;
  private _blank = false;
  private _list = false;
  private _fence: { end: RegExp; language: string; from: number } | null = null;
  private _html: { tag: string; depth: number } | null = null;

  /** Takes the whole text so far: the blocks that will not change any more, and the one at the tail, if any. */
  scan(text: string): { settled: readonly Block[]; tail: Block | null } {
    for (;;) {
      const newline = text.indexOf('\n', this._at);
      if (newline < 0) {
        break; // the last line may still grow: nothing can be said of it
      }
      this._line(text, text.slice(this._at, newline).replace(/\r$/, ''), newline + 1);
      this._at = newline + 1;
    }
    if (this._startsAnew(text)) {
      this._cut(text);
    }
    if (this._fence) {
      const { language, from } = this._fence;
      return {
        settled: this._settled,
        tail: { kind: 'code', language, code: text.slice(from).replace(/\n$/, ''), closed: false }
      };
    }
    const rest = text.slice(this._start);
    return { settled: this._settled, tail: rest.trim() ? { kind: 'text', source: rest } : null };
  }

  /** Whether the last line, though it still grows, is the first of another block already. */
  private _startsAnew(text: string): boolean {
    if (!this._blank || this._fence || this._html || this._start === this._at) {
      return false;
    }
    const first = text[this._at];
    return first !== undefined && !/\s/.test(first) && !(this._list && /[-*+\d]/.test(first));
  }

  private _line(text: string, line: string, next: number): void {
    if (this._fence) {
      if (this._fence.end.test(line)) {
        const { language, from } = this._fence;
        const code = text.slice(from, this._at).replace(/\r?\n$/, '');
        this._settled.push({ kind: 'code', language, code, closed: true });
        this._start = next;
        this._fence = null;
      }
      return;
    }
    if (this._html) {
      this._html.depth += opens(line, this._html.tag);
      if (this._html.depth <= 0) {
        this._html = null;
      }
      return;
    }
    if (!line.trim()) {
      this._blank = true;
      return;
    }
    const indented = /^[ \t]/.test(line);
    const fence = indented ? null : FENCE.exec(line);
    const item = ITEM.test(line);
    if (fence || (this._blank && !indented && !(this._list && item))) {
      this._cut(text);
    }
    this._blank = false;
    if (fence) {
      const [, mark, info] = fence;
      const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
      this._fence = { end, language: info.trim().split(/\s+/)[0] ?? '', from: next };
      return;
    }
    this._list ||= item;
    const tag = HTML.exec(line)?.[1];
    const depth = tag && !VOID.test(tag) ? opens(line, tag) : 0;
    this._html = tag && depth > 0 ? { tag, depth } : null;
  }

  /** Ends the open block before the line at hand. */
  private _cut(text: string): void {
    const source = text.slice(this._start, this._at);
    if (source.trim()) {
      this._settled.push({ kind: 'text', source });
    }
    this._start = this._at;
    this._list = false;
  }
}

/** All blocks of a text that is complete. */
export function blocksOf(text: string): readonly Block[] {
  const { settled, tail } = new BlockScanner().scan(text.endsWith('\n') ? text : text + '\n');
  return tail ? [...settled, tail] : settled;
}

const DEFINITION = /^ {0,3}\[[^\]^][^\]]*\]:[ \t]*\S/m;

/** Whether blocks of this text name links that another block defines, so that they cannot be parsed alone. */
export function hasDefinitions(text: string): boolean {
  return DEFINITION.test(text);
}
