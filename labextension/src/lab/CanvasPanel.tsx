import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';
import type { AhpStore, CanvasState, ChatState, URI } from '../ahp';
import { Context, type ViewHost } from '../view';
import { CanvasFrame, useCanvas } from '../view/CanvasFrame';
import { chatIcon } from './icon';

/** A canvas in a tab of its own. It goes when the canvas is closed. */
export class CanvasPanel extends ReactWidget {
  private readonly _undo: readonly (() => void)[];

  constructor(
    readonly canvas: URI,
    private readonly _chat: URI,
    private readonly _store: AhpStore,
    private readonly _host: ViewHost
  ) {
    super();
    this.id = `jupyter-ahp-canvas-${canvas}`;
    this.addClass('jp-ahp-Panel');
    this.title.icon = chatIcon;
    this.title.closable = true;
    const look = (): void => this._look();
    const held = [_store.subscribe(canvas), _store.subscribe(_chat, { turns: 1 })];
    this._undo = [
      _store.watch(canvas, look),
      _store.watch(_chat, look),
      ...held.map(each => () => each.release())
    ];
    this._look();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._undo.forEach(undo => undo());
      super.dispose();
    }
  }

  protected override render(): React.ReactElement {
    return (
      <Context.Provider value={{ store: this._store, host: this._host }}>
        <Shown canvas={this.canvas} />
      </Context.Provider>
    );
  }

  private _look(): void {
    const { status, state } = this._store.getChannel<CanvasState>(this.canvas);
    const chat = this._store.getChannel<ChatState>(this._chat);
    const listed = chat.state?.canvases?.some(({ resource }) => resource === this.canvas);
    if (status === 'missing' || chat.status === 'missing' || (chat.status === 'live' && !listed)) {
      this.dispose();
      return;
    }
    const title = state?.title || this._host.words.t('Canvas');
    this.title.label = title;
    this.title.caption = state?.status ? `${title}, ${state.status}` : title;
  }
}

function Shown({ canvas }: { canvas: URI }): React.ReactElement {
  return (
    <div className="ahp jp-ahp-Canvas">
      <CanvasFrame uri={canvas} canvas={useCanvas(canvas)} />
    </div>
  );
}
