import React from 'react';
import { duration } from './format';
import { useWords } from './host';
import { useNow } from './use';

/** The time since then, counting on. */
export function Elapsed(props: { since: number }): React.ReactElement {
  const words = useWords();
  const now = useNow(true);
  return <>{duration(Math.max(1000, now - props.since), words)}</>;
}
