import { useCallback, useSyncExternalStore } from 'react';
import { grantsOf, roleOf } from '../ahp';
import { useView } from './host';

/** Whether one may do what takes that operation (`chat:send`, …), as far as the host said. */
export type May = (operation: string) => boolean;

export function useMay(): May {
  const { connection } = useView().store;
  const host = useSyncExternalStore(connection.watch, () => connection.host);
  return useCallback(
    operation => {
      const grants = grantsOf(host);
      return !grants || grants.includes(operation);
    },
    [host]
  );
}

/** What one is to the host, in its word, such as `guest`. */
export function useRole(): string | undefined {
  const { connection } = useView().store;
  return useSyncExternalStore(connection.watch, () => roleOf(connection.host));
}
