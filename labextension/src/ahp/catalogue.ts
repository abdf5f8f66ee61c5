/**
 * The list of a host's sessions: `listSessions`, page by page, kept up to date by the notifications
 * of the root channel (AHP 2.3). These are not replayed, so the list is read anew at each connect.
 */

import { unreadableOf, type Unreadable } from './beyond';
import { asError, ConnectionLost } from './errors';
import { sameJson } from './json';
import type { Params } from './jsonrpc';
import type { ListSessionsResult, SessionSummary, URI } from './types';
import { ROOT } from './uris';

export interface SessionList {
  /** `loading`: never read to its end. `failed`: it could not be read, see `error`; `items` may be old. */
  readonly status: 'loading' | 'ready' | 'failed';
  /** Last modified first. A summary keeps its identity while nothing in it changes. */
  readonly items: readonly SessionSummary[];
  /** Sessions that are there and could not be read. */
  readonly unreadable: readonly Unreadable[];
  readonly error?: Error;
}

export type Request = <T>(method: string, params: Params) => Promise<T>;

const PAGE = 200;

export class SessionCatalogue {
  readonly #request: Request;
  readonly #changed: () => void;
  readonly #watchers = new Set<() => void>();
  #byUri = new Map<URI, SessionSummary>();
  #status: SessionList['status'] = 'loading';
  #error: Error | undefined;
  #unreadable: readonly Unreadable[] = [];
  #list: SessionList = { status: 'loading', items: [], unreadable: [] };
  #told: SessionList = this.#list;
  #stale = false;
  /** What notifications said while a list was being read: it may be older than they are. */
  #since: { method: string; params: Params }[] | undefined;
  #reading: object | undefined;

  constructor(request: Request, changed: () => void) {
    this.#request = request;
    this.#changed = changed;
  }

  /** The list now; a new object exactly when it changed. */
  getState = (): SessionList => {
    if (this.#stale) {
      this.#stale = false;
      this.#list = {
        status: this.#status,
        items: [...this.#byUri.values()].sort(newestFirst),
        unreadable: this.#unreadable,
        ...(this.#error ? { error: this.#error } : {})
      };
    }
    return this.#list;
  };

  /** Calls `listener` after changes; returns the undo. */
  watch = (listener: () => void): (() => void) => {
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  };

  /** Reads the whole list anew. The old one stays until the new one is there. */
  async refresh(): Promise<void> {
    const reading = (this.#reading = {});
    this.#since = [];
    const read = new Map<URI, SessionSummary>();
    const unreadable: Unreadable[] = [];
    try {
      let cursor: string | undefined;
      do {
        const page: ListSessionsResult = await this.#request('listSessions', {
          channel: ROOT,
          limit: PAGE,
          ...(cursor === undefined ? {} : { cursor })
        });
        if (this.#reading !== reading) {
          return;
        }
        unreadable.push(...unreadableOf(page));
        for (const summary of page.items) {
          read.set(summary.resource, this.#known(summary));
        }
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
    } catch (error) {
      if (this.#reading === reading) {
        this.#reading = this.#since = undefined;
        // A lost connection is told by the connection, and followed by another read.
        if (!(error instanceof ConnectionLost)) {
          this.#status = 'failed';
          this.#error = asError(error);
          this.#touch();
        }
      }
      return;
    }
    const since = this.#since ?? [];
    this.#reading = this.#since = undefined;
    this.#byUri = read;
    this.#unreadable = unreadable;
    this.#status = 'ready';
    this.#error = undefined;
    since.forEach(({ method, params }) => this.#apply(method, params));
    this.#touch();
  }

  /** Takes in a notification of the root channel; those of other matters are ignored. */
  notified(method: string, params: Params): void {
    this.#since?.push({ method, params });
    if (this.#apply(method, params)) {
      this.#touch();
    }
  }

  /** Tells the watchers, if there is news. The store calls it when it is time. */
  tell(): void {
    if (this.getState() !== this.#told) {
      this.#told = this.#list;
      for (const watcher of [...this.#watchers]) {
        watcher();
      }
    }
  }

  #apply(method: string, params: Params): boolean {
    switch (method) {
      case 'root/sessionAdded': {
        const summary = params.summary as SessionSummary;
        this.#byUri.set(summary.resource, this.#known(summary));
        return true;
      }
      case 'root/sessionRemoved':
        return this.#byUri.delete(params.session as URI);
      case 'root/sessionSummaryChanged': {
        const known = this.#byUri.get(params.session as URI);
        if (!known) {
          return false;
        }
        const { resource } = known;
        const changed = { ...known, ...(params.changes as Partial<SessionSummary>), resource };
        this.#byUri.set(resource, this.#known(changed));
        return true;
      }
      default:
        return false;
    }
  }

  #known(summary: SessionSummary): SessionSummary {
    const known = this.#byUri.get(summary.resource);
    return known && sameJson(known, summary) ? known : summary;
  }

  #touch(): void {
    this.#stale = true;
    this.#changed();
  }
}

function newestFirst(a: SessionSummary, b: SessionSummary): number {
  if (a.modifiedAt === b.modifiedAt) {
    return a.resource < b.resource ? -1 : 1;
  }
  return a.modifiedAt < b.modifiedAt ? 1 : -1;
}
