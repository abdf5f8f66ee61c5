import type { URI } from '../../ahp';
import type { Incoming } from '../../view';

type Take = (incoming: Incoming) => void;

/** What goes into a chat's box from elsewhere; it waits here for a chat whose box is not there yet. */
export class Inbox {
  private readonly _boxes = new Map<URI, Take[]>();
  private readonly _waiting = new Map<URI, Incoming[]>();

  /** A box takes what is for that chat, until the undo is called. Of several, the one that came last. */
  receive(chat: URI, take: Take): () => void {
    this._boxes.set(chat, [...(this._boxes.get(chat) ?? []), take]);
    const waiting = this._waiting.get(chat) ?? [];
    this._waiting.delete(chat);
    waiting.forEach(incoming => take(incoming));
    return () => {
      const left = (this._boxes.get(chat) ?? []).filter(each => each !== take);
      if (left.length) {
        this._boxes.set(chat, left);
      } else {
        this._boxes.delete(chat);
      }
    };
  }

  put(chat: URI, incoming: Incoming): void {
    const take = this._boxes.get(chat)?.at(-1);
    if (take) {
      take(incoming);
    } else {
      this._waiting.set(chat, [...(this._waiting.get(chat) ?? []), incoming]);
    }
  }
}
