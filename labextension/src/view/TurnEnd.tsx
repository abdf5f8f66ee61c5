import React, { useRef, useState } from 'react';
import { costOf, type Turn } from '../ahp';
import { CopyButton } from './CopyButton';
import { duration, money, tokens } from './format';
import { useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { Menu, type MenuItem } from './Menu';
import type { TurnActions } from './turnActions';

/** So much room a menu needs under its button. */
const MENU_PX = 150;

/** The answer as its author wrote it: markdown. */
export function answerOf(turn: Pick<Turn, 'responseParts'>): string {
  return turn.responseParts
    .flatMap(part => (part.kind === 'markdown' ? [part.content] : []))
    .join('\n\n');
}

interface Props {
  turn: Turn;
  /** From 1. */
  number: number;
  agent: string | undefined;
  actions: TurnActions;
  /** For the last turn of a chat in which none runs. */
  onRetry?: () => void;
}

/**
 * The line under an answer: whose it is, how long it took, what was reported of it and nothing that was not; and what
 * can be done with the turn.
 */
export function TurnEnd(props: Props): React.ReactElement {
  const { host } = useView();
  const { words, locale } = host;
  const { t } = words;
  const { turn, number, agent, actions, onRetry } = props;
  const [menu, setMenu] = useState<'up' | 'down'>();
  const [details, setDetails] = useState(false);
  const more = useRef<HTMLButtonElement>(null);
  const { usage } = turn;
  const stopped = turn.state === 'cancelled';
  const model = usage?.model ?? turn.message.model?.id;
  const facts: [string, boolean][] = [];
  if (stopped) {
    facts.push([
      turn.duration === undefined
        ? t('Stopped')
        : t('Stopped after %1', duration(turn.duration, words)),
      false
    ]);
  }
  if (agent) {
    facts.push([agent, stopped]);
  }
  if (model) {
    facts.push([model, true]);
  }
  // a turn that a crash ended has no time that anybody measured
  if (!stopped && turn.duration) {
    facts.push([duration(turn.duration, words), false]);
  }
  let reported: string | undefined;
  if (usage?.inputTokens !== undefined && usage.outputTokens !== undefined) {
    facts.push([t('%1 in, %2 out', tokens(usage.inputTokens), tokens(usage.outputTokens)), true]);
    reported = t('%1 tokens in, %2 out, as reported', usage.inputTokens, usage.outputTokens);
  } else if (usage?.outputTokens !== undefined) {
    facts.push([t('%1 out', tokens(usage.outputTokens)), true]);
  }
  const cost = costOf(usage);
  if (cost) {
    facts.push([money(cost.amount, cost.currency, locale), true]);
  }
  const answer = answerOf(turn);
  const { edit, fork, rewind, aside } = actions;

  const items = (): readonly MenuItem[] => [
    ...(rewind && actions.canRewind(turn.id)
      ? [{ label: t('Rewind to here'), icon: 'rewind', run: () => rewind(turn.id) } as const]
      : []),
    ...(aside ? [{ label: t('Side chat'), icon: 'chat', run: () => aside(turn.id) } as const] : []),
    {
      label: details ? t('Hide details') : t('Details'),
      icon: 'info',
      run: () => setDetails(!details)
    }
  ];
  const toggle = (): void => {
    const button = more.current?.getBoundingClientRect();
    const log = more.current?.closest('[role="log"]')?.getBoundingClientRect();
    const room = button && log ? log.bottom - button.bottom : 0;
    setMenu(menu ? undefined : room > MENU_PX ? 'down' : 'up');
  };

  return (
    <>
      <footer className="ahp-TurnEnd">
        {stopped && <Icon name="stop" />}
        <div className="ahp-Meta ahp-num" title={reported}>
          {facts.map(([fact, wide], index) => (
            <span key={index} className={wide ? 'ahp-wide' : undefined}>
              <bdi>{fact}</bdi>
            </span>
          ))}
        </div>
        <div
          className={menu ? `ahp-TurnEnd-actions is-${menu}` : 'ahp-TurnEnd-actions'}
          role="group"
          aria-label={t('Actions on turn %1', number)}
        >
          {answer && <CopyButton label={t('Copy answer')} text={() => answer} data-action="copy" />}
          {edit && turn.message.origin.kind === 'user' && (
            <IconButton
              icon="edit"
              className="ahp-idle"
              label={t('Edit and resend')}
              shortcut="E"
              data-action="edit"
              onClick={() => edit(turn)}
            />
          )}
          {fork && (
            <IconButton
              icon="fork"
              label={t('Fork from here')}
              shortcut="F"
              data-action="fork"
              onClick={() => fork(turn.id)}
            />
          )}
          {onRetry && (
            <IconButton
              icon="retry"
              label={t('Retry')}
              shortcut="R"
              data-action="retry"
              onClick={onRetry}
            />
          )}
          <IconButton
            ref={more}
            icon="more"
            label={t('More for turn %1', number)}
            aria-haspopup="menu"
            aria-expanded={!!menu}
            onClick={toggle}
          />
          {menu && (
            <Menu
              label={t('More for turn %1', number)}
              items={items()}
              onClose={() => setMenu(undefined)}
            />
          )}
        </div>
      </footer>
      {details && <TurnDetails turn={turn} agent={agent} model={model} />}
    </>
  );
}

/** What is known of a turn, in full. */
function TurnDetails(props: {
  turn: Turn;
  agent: string | undefined;
  model: string | undefined;
}): React.ReactElement {
  const { host } = useView();
  const { words, locale } = host;
  const { t } = words;
  const { turn, agent, model } = props;
  const { usage } = turn;
  const cost = costOf(usage);
  const started = turn.startedAt ? new Date(turn.startedAt) : undefined;
  const facts: readonly [string, string | undefined][] = [
    [t('Agent'), agent],
    [t('Model'), model],
    [t('Began'), started?.toLocaleString(locale)],
    [t('Took'), turn.duration ? duration(turn.duration, words) : undefined],
    [t('Tokens in'), usage?.inputTokens?.toLocaleString(locale)],
    [t('Of these cached'), usage?.cacheReadTokens?.toLocaleString(locale)],
    [t('Tokens out'), usage?.outputTokens?.toLocaleString(locale)],
    [t('Cost'), cost && money(cost.amount, cost.currency, locale)],
    [t('Turn'), turn.id]
  ];
  return (
    <dl className="ahp-Facts ahp-Details">
      {facts.map(
        ([name, value]) =>
          value && (
            <React.Fragment key={name}>
              <dt>{name}</dt>
              <dd>
                <bdi>{value}</bdi>
              </dd>
            </React.Fragment>
          )
      )}
    </dl>
  );
}
