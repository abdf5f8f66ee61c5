import React from 'react';
import type { ToolContent } from '../ahp';
import { useWords } from './host';
import { Icon } from './Icon';
import { usePlace } from './place';
import { activityOf } from './sessions';
import { useSession } from './use';

export type WorkerContent = Extract<ToolContent, { type: 'subagent' }>;

export function isWorker(content: ToolContent): content is WorkerContent {
  return content.type === 'subagent';
}

/** The worker that a tool call runs: how it is, and the way to its chat. */
export function WorkerRow(props: { content: WorkerContent }): React.ReactElement {
  const { content } = props;
  const { t } = useWords();
  const { session, open } = usePlace();
  const listed = useSession(session, state => state !== undefined);
  const chat = useSession(session, state =>
    state?.chats.find(each => each.resource === content.resource)
  );
  const gone = listed && !chat;
  const activity = chat && activityOf(chat.status);
  const name = content.title || content.agentName || t('Worker');
  const word = gone
    ? t('not here any more')
    : activity === 'input'
      ? t('waits for you')
      : activity === 'running'
        ? t('working')
        : activity === 'error'
          ? t('failed')
          : activity === 'idle'
            ? t('ended')
            : '';
  return (
    <div className="ahp-Line ahp-Worker" data-chat={content.resource}>
      {activity === 'input' ? (
        <Icon name="bell" className="ahp-warn" label={t('Needs you')} />
      ) : activity === 'running' ? (
        <Icon name="spinner" label={t('Working')} />
      ) : activity === 'error' ? (
        <Icon name="cross" className="ahp-bad" label={t('Failed')} />
      ) : (
        <Icon name="chat" className="ahp-muted" label={t('Worker')} />
      )}
      <span className="ahp-clip">
        {open && !gone ? (
          <a
            href="#"
            title={t('Open what the worker does')}
            onClick={event => {
              event.preventDefault();
              open({ chat: content.resource, session });
            }}
          >
            <bdi>{name}</bdi>
          </a>
        ) : (
          <b>
            <bdi>{name}</bdi>
          </b>
        )}{' '}
        {content.agentName && content.agentName !== name
          ? t('Worker, %1', content.agentName)
          : t('Worker')}
        {chat?.activity && <bdi>: {chat.activity}</bdi>}
      </span>
      <span className="ahp-grow" />
      {word && <span className="ahp-num">{word}</span>}
    </div>
  );
}
