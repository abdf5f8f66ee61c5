import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import React from 'react';
import type { AhpStore } from '../ahp';
import { ChatsList, type ChatRef, ChatView, Context, type ViewHost } from '../view';
import { needing } from '../view/sessions';
import { chatIcon } from './icon';
import { PopOutButton } from './PopOutButton';
import { countInTitle } from './windowTitle';

/** The panel at the side: the list of chats, or one of them in its place. */
export class SidePanel extends ReactWidget {
  private _chat: ChatRef | undefined;
  private _choosing = false;
  private _problem: string | undefined;
  private _unwatch: (() => void) | undefined;
  private readonly _changed = new Signal<this, void>(this);
  /** Emitted when another chat, or the list, is shown. */
  readonly shown = new Signal<this, ChatRef | undefined>(this);

  constructor(
    private readonly _store: () => AhpStore,
    private readonly _host: ViewHost,
    private readonly _canPopOut: boolean
  ) {
    super();
    this.id = 'jupyter-ahp-chats';
    this.addClass('jp-ahp-Panel');
    this.title.icon = chatIcon;
    this.title.caption = _host.words.t('Chats with agents');
  }

  override dispose(): void {
    this._unwatch?.();
    super.dispose();
  }

  /** The chat that is shown; none while the list is. */
  get chat(): ChatRef | undefined {
    return this._chat;
  }

  showChat(chat: ChatRef): void {
    this._chat = chat;
    this._choosing = false;
    this._problem = undefined;
    this._tell();
  }

  showList(): void {
    this._chat = undefined;
    this._tell();
  }

  /** Shows the list with something that went wrong. */
  showProblem(problem: string): void {
    this._problem = problem;
    this.showList();
  }

  protected override render(): React.ReactElement {
    return <UseSignal signal={this._changed}>{() => this._content()}</UseSignal>;
  }

  private _content(): React.ReactElement {
    const chat = this._chat;
    const host = this._host;
    const store = this._store();
    this._unwatch ??= this._count(store);
    return (
      <Context.Provider value={{ store, host }}>
        {chat ? (
          <ChatView
            key={chat.chat}
            chat={chat.chat}
            session={chat.session}
            onBack={() => this.showList()}
            onOpen={opened => host.openChat(opened, 'side')}
            autoFocus
            actions={
              this._canPopOut && (
                <PopOutButton
                  label={host.words.t('Open in the main area')}
                  onClick={() => {
                    this.showList();
                    host.openChat(chat, 'main');
                  }}
                />
              )
            }
          />
        ) : (
          <ChatsList
            choosing={this._choosing}
            onChoosing={choosing => {
              this._choosing = choosing;
              this._changed.emit();
            }}
            problem={this._problem}
          />
        )}
      </Context.Provider>
    );
  }

  /** The panel's tab and the window's title say how many chats need the reader, as long as the list is followed at all. */
  private _count({ sessions }: AhpStore): () => void {
    const { t, n } = this._host.words;
    const sayInTitle = countInTitle(document);
    const say = (): void => {
      const count = needing(sessions.getState().items).length;
      this.title.label = count ? String(count) : '';
      this.title.caption = count
        ? n('Chats with agents: %1 needs you', 'Chats with agents: %1 need you', count)
        : t('Chats with agents');
      sayInTitle(count);
    };
    say();
    return sessions.watch(say);
  }

  private _tell(): void {
    this._changed.emit();
    this.shown.emit(this._chat);
  }
}
