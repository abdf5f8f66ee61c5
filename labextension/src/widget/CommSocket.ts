import type { AnyModel } from '@anywidget/types';
import { type SocketLike, uuid } from '../ahp';

interface CommMessage {
  readonly type?: unknown;
  readonly id?: unknown;
  readonly text?: unknown;
  readonly reason?: unknown;
}

/**
 * A socket that goes through the kernel: frames are custom messages of the widget, `{type: 'frame', id, text}` both
 * ways. `{type: 'open', id}` asks for it and says that it is there, `{type: 'close', id, reason}` ends it. The widget's
 * views share its messages: each socket heeds its own `id` only.
 */
export class CommSocket implements SocketLike {
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  private _open = false;
  private _closed = false;
  private readonly _id = uuid();

  constructor(private readonly _model: AnyModel) {
    _model.on('msg:custom', this._received);
    _model.send({ type: 'open', id: this._id });
  }

  get readyState(): number {
    return this._closed ? 3 : this._open ? 1 : 0;
  }

  send(text: string): void {
    if (this._closed) {
      throw new Error('The connection through the kernel is closed');
    }
    this._model.send({ type: 'frame', id: this._id, text });
  }

  close(_code?: number, reason = ''): void {
    if (!this._closed) {
      this._model.send({ type: 'close', id: this._id, reason });
      this._end(1000, reason);
    }
  }

  private readonly _received = (message: CommMessage): void => {
    if (message.id !== this._id) {
      return;
    }
    if (message.type === 'close') {
      this._end(1006, typeof message.reason === 'string' ? message.reason : '');
      return;
    }
    if (!this._open && (message.type === 'open' || message.type === 'frame')) {
      this._open = true;
      this.onopen?.({});
    }
    if (message.type === 'frame' && typeof message.text === 'string') {
      this.onmessage?.({ data: message.text });
    }
  };

  private _end(code: number, reason: string): void {
    if (!this._closed) {
      this._closed = true;
      this._model.off('msg:custom', this._received);
      this.onclose?.({ code, reason });
    }
  }
}
