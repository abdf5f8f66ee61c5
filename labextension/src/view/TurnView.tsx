import React, { useCallback } from 'react';
import type { ActiveTurn, ResponsePart, Turn, URI } from '../ahp';
import { useWords } from './host';
import { Part } from './Part';
import type { TurnActions } from './turnActions';
import { TurnEnd } from './TurnEnd';
import { useChat } from './use';
import { UserBlock } from './UserBlock';
import { Working } from './Working';

function keyOf(part: ResponsePart, index: number): string {
  if (part.kind === 'markdown' || part.kind === 'reasoning') {
    return part.id;
  }
  if (part.kind === 'toolCall') {
    return part.toolCall.toolCallId;
  }
  return `${part.kind}-${index}`;
}

/** Whether a part says of itself that something goes on, so that no other line needs to. */
function isAlive(part: ResponsePart | undefined): boolean {
  switch (part?.kind) {
    case 'markdown':
      return part.content !== '';
    case 'reasoning':
      return true;
    case 'inputRequest':
      return !part.response;
    case 'toolCall':
      return part.toolCall.status !== 'completed' && part.toolCall.status !== 'cancelled';
    default:
      return false;
  }
}

export interface TurnProps {
  chat: URI;
  id: string;
  /** From 1, counted from the oldest that is loaded. */
  number: number;
  /** The turn once it ended. While it runs it is read from the chat, so that only this component follows it. */
  ended: Turn | undefined;
  agent: string | undefined;
  me: string | undefined;
  readOnly: boolean;
  actions: TurnActions;
  /** For the last turn, while none runs. */
  onRetry?: (turn: Turn) => void;
}

/** One turn: what was said, and all that came of it. An ended one does not render again. */
export const TurnView = React.memo(function TurnView(props: TurnProps): React.ReactElement | null {
  const { chat, id, number, ended, agent, me, readOnly, actions, onRetry } = props;
  const { t } = useWords();
  const running = !ended;
  const turn: Turn | ActiveTurn | undefined = useChat(
    chat,
    useCallback(
      state => ended ?? (state?.activeTurn?.id === id ? state.activeTurn : undefined),
      [ended, id]
    ),
    running
  );
  const activity = useChat(chat, state => (running ? state?.activity : undefined), running);
  if (!turn) {
    return null;
  }
  const parts = turn.responseParts;
  const last = parts.length - 1;
  const state = running
    ? t('running')
    : ended.state === 'error'
      ? t('failed')
      : ended.state === 'cancelled'
        ? t('stopped')
        : '';
  const retry = ended && onRetry ? () => onRetry(ended) : undefined;
  const { edit } = actions;
  return (
    <article
      tabIndex={-1}
      className={running ? 'ahp-Turn is-active' : 'ahp-Turn'}
      aria-label={state ? `${t('Turn %1', number)}, ${state}` : t('Turn %1', number)}
      aria-busy={running}
      data-turn={id}
    >
      <UserBlock
        message={turn.message}
        me={me}
        onEdit={ended && edit ? () => edit(ended) : undefined}
      />
      {parts.map((part, index) => (
        <Part
          key={keyOf(part, index)}
          chat={chat}
          turnId={id}
          part={part}
          live={running && index === last}
          running={running}
          readOnly={readOnly}
          me={me}
          onRetry={index === last ? retry : undefined}
        />
      ))}
      {running && (activity || !isAlive(parts[last])) && (
        <Working activity={activity} since={Date.parse(turn.startedAt ?? '') || Date.now()} />
      )}
      {ended && (ended.state !== 'error' || parts.some(part => part.kind === 'markdown')) && (
        <TurnEnd
          turn={ended}
          number={number}
          agent={agent}
          actions={actions}
          onRetry={ended.state === 'error' ? undefined : retry}
        />
      )}
    </article>
  );
});
