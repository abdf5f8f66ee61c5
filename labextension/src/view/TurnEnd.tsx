import React from 'react';
import type { Turn } from '../ahp';
import { CopyButton } from './CopyButton';
import { duration, tokens } from './format';
import { useWords } from './host';
import { Icon } from './Icon';

/** The answer as its author wrote it: markdown. */
export function answerOf(turn: Pick<Turn, 'responseParts'>): string {
  return turn.responseParts
    .flatMap(part => (part.kind === 'markdown' ? [part.content] : []))
    .join('\n\n');
}

/** The line under an answer: whose it is, how long it took, what was reported of it; nothing that was not. */
export function TurnEnd(props: { turn: Turn; agent: string | undefined }): React.ReactElement {
  const words = useWords();
  const { t } = words;
  const { turn, agent } = props;
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
  const answer = answerOf(turn);
  return (
    <footer className="ahp-TurnEnd">
      {stopped && <Icon name="stop" />}
      <div className="ahp-Meta ahp-num" title={reported}>
        {facts.map(([fact, wide], index) => (
          <span key={index} className={wide ? 'ahp-wide' : undefined}>
            <bdi>{fact}</bdi>
          </span>
        ))}
      </div>
      {answer && (
        <div className="ahp-TurnEnd-actions">
          <CopyButton label={t('Copy answer')} text={() => answer} />
        </div>
      )}
    </footer>
  );
}
