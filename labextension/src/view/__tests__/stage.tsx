/** A view over a real store and a host in memory, with what a browser has and jsdom has not. */

import { act, cleanup, render, type RenderResult } from '@testing-library/react';
import React from 'react';
import { vi } from 'vitest';
import {
  type AgentInfo,
  type ChatState,
  ROOT,
  type SessionState,
  type SessionSummary,
  type Turn
} from '../../ahp';
import { World } from '../../ahp/__tests__/world';
import { ChatView, type ChatViewProps } from '../ChatView';
import { Context, type ViewHost } from '../host';
import { english } from '../words';

export const CHAT = 'ahp-chat:/c1';
export const SESSION = 'ahp-session:/s1';

class NoResizeObserver {
  observe(): void {
    // jsdom lays nothing out: nothing ever changes its size
  }
  unobserve(): void {
    // as above
  }
  disconnect(): void {
    // as above
  }
}

export function browser(): void {
  vi.stubGlobal('ResizeObserver', NoResizeObserver);
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
  Element.prototype.scrollTo = function (this: Element, options?: ScrollToOptions | number) {
    this.scrollTop = typeof options === 'object' ? (options.top ?? 0) : 0;
  } as typeof Element.prototype.scrollTo;
  Element.prototype.scrollIntoView = () => undefined;
  Blob.prototype.text = function (this: Blob) {
    return read(reader => reader.readAsText(this));
  };
  Blob.prototype.arrayBuffer = function (this: Blob) {
    return read(reader => reader.readAsArrayBuffer(this));
  };
}

/** jsdom's blobs are read in the old way alone. */
function read<T>(begin: (reader: FileReader) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as T);
    reader.onerror = () => reject(reader.error);
    begin(reader);
  });
}

export function leave(): void {
  cleanup();
  vi.unstubAllGlobals();
}

export const ASSISTANT: AgentInfo = {
  provider: 'assistant',
  displayName: 'Assistant',
  description: 'Talks to a model',
  models: [{ id: 'm1', provider: 'assistant', name: 'Model one' }]
};

/** An agent that takes steering, and whose chats can be forked and talked about. */
export const ABLE: AgentInfo = {
  ...ASSISTANT,
  capabilities: { multipleChats: { fork: true, sideChat: true } },
  _meta: { 'jupyter-ahp.steering': true }
};

/** Has the host say at the handshake who the reader is, and what they may do; and whether it runs commands. */
export function greets(world: World, meta: Record<string, unknown>, commands = true): void {
  world.host.answers['initialize'] = (params, socket) => {
    socket.clientId = params['clientId'];
    world.host.clients.set(params['clientId'], new Map());
    const uris = (params['initialSubscriptions'] as string[]).filter(uri =>
      world.host.states.has(uri)
    );
    uris.forEach(uri => socket.subscribed.add(uri));
    return {
      result: {
        protocolVersion: '1.0.0',
        serverSeq: world.host.seq,
        snapshots: uris.map(uri => world.host.snapshot(uri)),
        ...(commands ? { terminalCommandPrefix: '!' } : {}),
        _meta: meta
      }
    };
  };
}

export function turn(id: string, text: string, answer: string, more: Partial<Turn> = {}): Turn {
  return {
    id,
    startedAt: '2026-12-01T10:00:00.000Z',
    duration: 8000,
    message: { text, origin: { kind: 'user' } },
    responseParts: answer ? [{ kind: 'markdown', id: `${id}-1`, content: answer }] : [],
    state: 'complete',
    ...more
  };
}

export function chatState(more: Partial<ChatState> = {}): ChatState {
  return {
    resource: CHAT,
    title: 'A chat',
    status: 33,
    modifiedAt: '2026-12-01T10:00:00.000Z',
    turns: [],
    ...more
  };
}

export function sessionState(chat: ChatState, more: Partial<SessionState> = {}): SessionState {
  const { resource, title, status, modifiedAt } = chat;
  return {
    provider: 'assistant',
    title,
    status,
    lifecycle: 'ready',
    activeClients: [],
    chats: [{ resource, title, status, modifiedAt }],
    defaultChat: resource,
    ...more
  };
}

export function summary(id: string, more: Partial<SessionSummary> = {}): SessionSummary {
  const at = '2026-12-01T10:00:00.000Z';
  return {
    resource: `ahp-session:/${id}`,
    provider: 'assistant',
    title: `Chat ${id}`,
    status: 33,
    createdAt: at,
    modifiedAt: at,
    defaultChat: `ahp-chat:/${id}`,
    ...more
  };
}

export interface Stage extends RenderResult {
  readonly world: World;
  readonly host: ViewHost & { copied: string[]; opened: unknown[]; started: unknown[] };
  /** Lets everything arrive and be drawn. */
  settle(): Promise<void>;
  /** Actions of that type that the host was sent, in order. */
  sent(type: string): Record<string, unknown>[];
}

/** A host that shows markdown as it is written, so that a test sees what was rendered when. */
export function plainHost(rendered: string[] = []): Stage['host'] {
  const copied: string[] = [];
  const opened: unknown[] = [];
  const started: unknown[] = [];
  return {
    words: english,
    copied,
    opened,
    started,
    renderMarkdown: async source => {
      rendered.push(source);
      const root = document.createElement('div');
      const paragraph = document.createElement('p');
      paragraph.textContent = source.trim();
      root.append(paragraph);
      return root;
    },
    copy: async text => {
      copied.push(text);
    },
    confirm: async () => true,
    openChat: (chat, area) => opened.push([chat, area]),
    newChat: agent => started.push(agent)
  };
}

export async function show(
  element: React.ReactElement,
  set: (world: World) => void = () => undefined,
  rendered: string[] = []
): Promise<Stage> {
  const world = new World();
  world.host.states.set(ROOT, { agents: [ASSISTANT] });
  set(world);
  const host = plainHost(rendered);
  const context = { store: world.store, host };
  await world.start();
  const result = render(<Context.Provider value={context}>{element}</Context.Provider>);
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      await act(async () => {
        await world.settle();
        world.frame();
        await world.settle();
      });
    }
  };
  await settle();
  return {
    ...result,
    world,
    host,
    settle,
    sent: type =>
      world.sockets
        .flatMap(socket => socket.requests('dispatchAction'))
        .map(message => message['params'].action as Record<string, unknown>)
        .filter(action => action['type'] === type)
  };
}

export async function showChat(
  state: Partial<ChatState> = {},
  options: {
    props?: Partial<ChatViewProps>;
    set?: (world: World) => void;
    rendered?: string[];
  } = {}
): Promise<Stage> {
  const chat = chatState(state);
  return show(
    <ChatView chat={CHAT} session={SESSION} {...options.props} />,
    world => {
      world.host.states.set(CHAT, chat);
      world.host.states.set(SESSION, sessionState(chat));
      options.set?.(world);
    },
    options.rendered
  );
}
