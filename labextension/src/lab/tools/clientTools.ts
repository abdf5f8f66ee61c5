/**
 * The tools of this page for agents (AHP 5.9): announced in the sessions whose chats are shown here, and run when the host
 * says that one of them is called.
 */

import {
  type AhpStore,
  type SessionInputRequest,
  type SessionState,
  sameJson,
  type Subscription,
  type ToolCallResult,
  type ToolContent,
  type ToolDefinition,
  type URI
} from '../../ahp';

/** What came of a call. `said` is for the model, `done` for people, in the past tense. */
export interface Done {
  readonly said: string;
  readonly done: string;
  readonly content?: readonly ToolContent[];
}

/** A call that cannot be done, in words that help a model to do better. */
export class CannotDo extends Error {}

export interface ClientTool {
  readonly definition: ToolDefinition;
  /** Throws `CannotDo`. */
  run(given: Readonly<Record<string, unknown>>): Promise<Done>;
}

/** Sessions that stay attended after their last chat was closed here: what runs in them may call on. */
const LINGERING = 8;

interface Attended {
  readonly held: Subscription;
  readonly unwatch: () => void;
  holders: number;
  /** How often they were announced: again after a restart of the host, but not for ever to one that drops them. */
  announced: number;
  refused: boolean;
}

const MOST_ANNOUNCED = 20;

export class ClientTools {
  private readonly _sessions = new Map<URI, Attended>();
  /** The calls that were taken up. A host names one again as long as it runs. */
  private readonly _taken = new Set<string>();

  constructor(
    private readonly _store: AhpStore,
    private readonly _name: string,
    private readonly _tools: readonly ClientTool[]
  ) {}

  /** Has the tools announced in a session for as long as one of its chats is shown; returns the undo. */
  attend(session: URI): () => void {
    const attended = this._sessions.get(session) ?? this._begin(session);
    attended.holders += 1;
    this._sessions.delete(session);
    this._sessions.set(session, attended); // the one that was wanted last is at the end
    return () => {
      attended.holders -= 1;
      this._leave();
    };
  }

  private _begin(session: URI): Attended {
    const attended: Attended = {
      held: this._store.subscribe(session),
      unwatch: this._store.watch(session, () => this._look(session, attended)),
      holders: 0,
      announced: 0,
      refused: false
    };
    this._look(session, attended);
    return attended;
  }

  private _leave(): void {
    const idle = [...this._sessions].filter(([, { holders }]) => holders === 0);
    for (const [session, { held, unwatch }] of idle.slice(
      0,
      Math.max(0, idle.length - LINGERING)
    )) {
      this._sessions.delete(session);
      unwatch();
      held.release(); // and with the subscription the host takes the tools out
    }
  }

  private _look(session: URI, attended: Attended): void {
    const { status, state } = this._store.getChannel<SessionState>(session);
    if (status !== 'live' || state?.lifecycle !== 'ready') {
      return;
    }
    this._announce(session, state, attended);
    for (const request of state.inputNeeded ?? []) {
      const { clientId } = this._store.connection;
      if (request.kind === 'toolClientExecution' && request.clientId === clientId) {
        void this._take(request);
      }
    }
  }

  private _announce(session: URI, state: SessionState, attended: Attended): void {
    const activeClient = {
      clientId: this._store.connection.clientId,
      displayName: this._name,
      tools: this._tools.map(({ definition }) => definition)
    };
    const known = state.activeClients.find(({ clientId }) => clientId === activeClient.clientId);
    const settled = known && (attended.announced > 0 || sameJson(known, activeClient));
    if (settled || attended.refused || attended.announced >= MOST_ANNOUNCED) {
      return;
    }
    attended.announced += 1;
    this._store
      .dispatched(session, { type: 'session/activeClientSet', activeClient })
      .catch((error: Error) => {
        attended.refused = true; // asked once: a reader may not announce anything
        console.info(`jupyter-ahp: agents cannot use this page's notebooks: ${error.message}`);
      });
  }

  private async _take(
    request: Extract<SessionInputRequest, { kind: 'toolClientExecution' }>
  ): Promise<void> {
    const { chat, turnId, toolCall } = request;
    const key = `${chat} ${turnId} ${toolCall.toolCallId}`;
    if (this._taken.has(key)) {
      return;
    }
    this._taken.add(key);
    const result = await this._run(toolCall.toolName, inputOf(toolCall));
    await this._store
      .dispatched(chat, {
        type: 'chat/toolCallComplete',
        turnId,
        toolCallId: toolCall.toolCallId,
        result
      })
      .catch((error: Error) =>
        console.warn(`jupyter-ahp: what ${toolCall.toolName} said was not taken: ${error.message}`)
      );
  }

  private async _run(name: string, input: string): Promise<ToolCallResult> {
    const tool = this._tools.find(({ definition }) => definition.name === name);
    const title = tool?.definition.title ?? name;
    try {
      if (!tool) {
        throw new CannotDo(`This page has no tool called ${name}.`);
      }
      const { said, done, content = [] } = await tool.run(read(input));
      return {
        success: true,
        pastTenseMessage: done,
        content: [{ type: 'text', text: said }, ...content]
      };
    } catch (error) {
      if (!(error instanceof CannotDo)) {
        console.error(`jupyter-ahp: the tool ${name} failed`, error);
      }
      const { message } = error as Error;
      return { success: false, pastTenseMessage: `${title}: not done`, error: { message } };
    }
  }
}

function inputOf(call: { toolInput?: unknown; partialInput?: string }): string {
  return typeof call.toolInput === 'string' ? call.toolInput : (call.partialInput ?? '');
}

function read(input: string): Record<string, unknown> {
  const given = JSON.parse(input || '{}') as unknown;
  if (typeof given !== 'object' || given === null) {
    throw new CannotDo('The input has to be a JSON object.');
  }
  return given as Record<string, unknown>;
}
