import type { AhpStore } from '../ahp';
import type { ViewHost } from './host';

/** What JupyterLab's side of this package offers to widgets on the same page: one connection for all. */
export interface Bridge {
  readonly host: ViewHost;
  /** The page's store, connected or connecting. */
  connect(): AhpStore;
  /** The application (`JupyterFrontEnd`), for what is not foreseen here. */
  readonly app?: unknown;
}

const KEY = Symbol.for('jupyter-ahp');

export function setBridge(bridge: Bridge): void {
  (globalThis as Record<symbol, unknown>)[KEY] = bridge;
}

export function getBridge(): Bridge | undefined {
  return (globalThis as Record<symbol, unknown>)[KEY] as Bridge | undefined;
}
