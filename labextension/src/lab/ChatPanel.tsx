import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import React from 'react';
import type { AhpStore, ChatState, SessionState } from '../ahp';
import { type ChatRef, ChatView, Context, type ViewHost } from '../view';
import { activityOf } from '../view/sessions';
import { chatIcon } from './icon';

/** A chat in the main area. */
export class ChatPanel extends ReactWidget {
  private readonly _unwatch: (() => void)[] = [];

  constructor(
    readonly chat: ChatRef,
    private readonly _store: AhpStore,
    private readonly _host: ViewHost
  ) {
    super();
    this.id = ChatPanel.idOf(chat);
    this.addClass('jp-ahp-Panel');
    this.title.icon = chatIcon;
    this.title.closable = true;
    this._watch();
  }

  static idOf(chat: ChatRef): string {
    return `jupyter-ahp-chat-${chat.chat}`;
  }

  override dispose(): void {
    this._unwatch.splice(0).forEach(undo => undo());
    super.dispose();
  }

  protected override onActivateRequest(_message: Message): void {
    this.node.querySelector<HTMLElement>('.ahp-Composer-text')?.focus();
  }

  protected override render(): React.ReactElement {
    return (
      <Context.Provider value={{ store: this._store, host: this._host }}>
        <ChatView
          chat={this.chat.chat}
          session={this.chat.session}
          onOpen={opened => this._host.openChat(opened, 'main')}
          autoFocus
        />
      </Context.Provider>
    );
  }

  private _watch(): void {
    const { chat, session } = this.chat;
    const look = (): void => {
      const listed = session
        ? this._store.getState<SessionState>(session)?.chats.find(each => each.resource === chat)
            ?.title
        : undefined;
      const { t } = this._host.words;
      const state = this._store.getState<ChatState>(chat);
      const title = (listed ?? state?.title) || t('New chat');
      const activity = activityOf(state?.status ?? 0);
      this.title.label = activity === 'input' ? t('Needs you: %1', title) : title;
      this.title.caption =
        activity === 'input'
          ? t('%1, needs you', title)
          : activity === 'running'
            ? t('%1, working', title)
            : activity === 'error'
              ? t('%1, failed', title)
              : title;
    };
    look();
    this._unwatch.push(this._store.watch(chat, look));
    if (session) {
      this._unwatch.push(this._store.watch(session, look));
    }
  }
}
