import type { ViewHost } from '../host';
import { type Block, BlockScanner, hasDefinitions } from './blocks';
import { codeFigure, decorate } from './code';
import { dollars, hasMath } from './math';

/** One block on the page. Rendering takes time: what was there stays until the next is ready, and the latest wins. */
class Slot {
  readonly node = document.createElement('div');
  private _shown: Block | null = null;
  private _wanted: { block: Block; final: boolean } | null = null;
  private _busy = false;
  private _text: Text | null = null;

  constructor(private readonly _host: ViewHost) {
    this.node.className = 'ahp-Md-block';
  }

  set(block: Block, final: boolean): void {
    if (block.kind === 'code' && !(block.closed && block.language === 'mermaid')) {
      this._wanted = null;
      this._code(block);
      return;
    }
    if (
      !this._busy &&
      block.kind === 'text' &&
      this._shown?.kind === 'text' &&
      this._shown.source === block.source
    ) {
      if (final) {
        this._typeset(block.source); // all that was left to do
      }
      return;
    }
    this._wanted = { block, final };
    if (!this._busy) {
      void this._render();
    }
  }

  /** A fence that is still open grows as plain text; the host colours it once it is closed. */
  private _code(block: Block & { kind: 'code' }): void {
    const last = this._shown;
    if (last?.kind !== 'code' || last.language !== block.language || !this._text) {
      this._text = document.createTextNode('');
      const code = document.createElement('code');
      code.append(this._text);
      this.node.replaceChildren(codeFigure(this._host, block.language, code));
    }
    const shown = this._text.data;
    if (block.code.startsWith(shown)) {
      this._text.appendData(block.code.slice(shown.length));
    } else {
      this._text.data = block.code;
    }
    const newlyClosed = block.closed && !(last?.kind === 'code' && last.closed);
    this._shown = block;
    if (newlyClosed && block.language) {
      void this._highlight(block, this._text);
    }
  }

  private async _highlight(block: Block & { kind: 'code' }, text: Text): Promise<void> {
    const mark = '`'.repeat(
      Math.max(3, ...(block.code.match(/`+/g) ?? []).map(run => run.length + 1))
    );
    const rendered = await this._host.renderMarkdown(
      `${mark}${block.language}\n${block.code}\n${mark}`
    );
    const coloured = rendered.querySelector('pre code');
    // only if the code is still what was coloured
    if (coloured && text.parentElement && this._text === text) {
      const code = text.parentElement;
      code.className = coloured.className;
      code.replaceChildren(...coloured.childNodes);
      this._text = null;
    }
  }

  private _typeset(source: string): void {
    if (hasMath(source)) {
      this._host.typeset?.(this.node);
    }
  }

  private async _render(): Promise<void> {
    this._busy = true;
    while (this._wanted) {
      const { block, final } = this._wanted;
      this._wanted = null;
      const source =
        block.kind === 'code' ? `\`\`\`${block.language}\n${block.code}\n\`\`\`` : block.source;
      try {
        const rendered = await this._host.renderMarkdown(dollars(source));
        if (this._wanted) {
          continue; // something newer came meanwhile
        }
        decorate(this._host, rendered);
        this.node.replaceChildren(...rendered.childNodes);
        if (final) {
          this._typeset(source);
        }
      } catch (error) {
        console.error(
          'jupyter-ahp: a block of an answer could not be rendered and is shown as text',
          error
        );
        this.node.textContent = source;
      }
      this._shown = block;
      this._text = null;
    }
    this._busy = false;
  }
}

/** Blocks go to the page in boxes of so many: what is laid out anew as an answer grows is the last box. */
const CHUNK = 32;

/** An answer on the page. `update` costs what came since, not what is there. */
export class MarkdownStream {
  private _scanner = new BlockScanner();
  private readonly _slots: Slot[] = [];
  private _final = 0;
  private _text = '';
  private _ended = false;

  constructor(
    private readonly _root: HTMLElement,
    private readonly _host: ViewHost
  ) {}

  update(text: string, live: boolean): void {
    if (text === this._text && this._ended === !live) {
      return;
    }
    if (!text.startsWith(this._text)) {
      this._clear();
    }
    if (this._ended && !live) {
      this._clear();
    }
    this._text = text;
    this._ended = !live;
    if (!live && hasDefinitions(text)) {
      // a link's address stands in another block: this once, the whole is one block
      this._clear();
      this._text = text;
      this._slot(0).set({ kind: 'text', source: text }, true);
      return;
    }
    const { settled, tail } = this._scanner.scan(live || text.endsWith('\n') ? text : text + '\n');
    for (; this._final < settled.length; this._final++) {
      this._slot(this._final).set(settled[this._final], true);
    }
    let count = settled.length;
    if (tail) {
      this._slot(count++).set(tail, !live);
    }
    for (const extra of this._slots.splice(count)) {
      extra.node.remove();
    }
    if (this._root.lastElementChild?.childElementCount === 0) {
      this._root.lastElementChild.remove();
    }
  }

  private _slot(index: number): Slot {
    let slot = this._slots[index];
    if (!slot) {
      slot = new Slot(this._host);
      this._slots[index] = slot;
      if (index % CHUNK === 0) {
        const chunk = document.createElement('div');
        chunk.className = 'ahp-Md-chunk';
        this._root.append(chunk);
      }
      this._root.lastElementChild?.append(slot.node);
    }
    return slot;
  }

  private _clear(): void {
    this._root.replaceChildren();
    this._slots.length = 0;
    this._scanner = new BlockScanner();
    this._final = 0;
  }
}
