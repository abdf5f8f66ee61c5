import { useEffect, useState, useSyncExternalStore } from 'react';
import type { ConnectionState } from '../ahp';
import { useView } from './host';

export function useConnection(): ConnectionState {
  const { connection } = useView().store;
  return useSyncExternalStore(connection.watch, connection.getState);
}

/** A connection that takes this long is said to be missing. */
const PATIENCE_MS = 1500;

/** Whether the reader should be told that there is no connection: not for the blink of a first connect. */
export function useIsOffline(): boolean {
  const { status, attempt } = useConnection();
  const open = status === 'open';
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (open) {
      setLate(false);
      return;
    }
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [open]);
  return !open && (late || status === 'refused' || attempt > 1);
}

/** Who the reader is to the host (`user:<name>` or `root:<host>`), as it said at the handshake. */
export function useMe(): string | undefined {
  const { connection } = useView().store;
  const read = (): string | undefined => {
    const me = connection.host?._meta?.['jupyter-ahp.principal'];
    return typeof me === 'string' ? me : undefined;
  };
  return useSyncExternalStore(connection.watch, read);
}

/** What a message begins with that the host runs in a terminal; undefined where it runs none. */
export function useCommandPrefix(): string | undefined {
  const { connection } = useView().store;
  return useSyncExternalStore(
    connection.watch,
    () => connection.host?.terminalCommandPrefix || undefined
  );
}
