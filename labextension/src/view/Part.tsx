import React from 'react';
import { type ResponsePart, steeringOf, type URI } from '../ahp';
import { Approval, type ApprovalAnswer } from './Approval';
import { ErrorCard } from './ErrorCard';
import { useView } from './host';
import { Icon } from './Icon';
import { Markdown } from './markdown/Markdown';
import { Notice } from './Notice';
import { Question } from './Question';
import { Reasoning } from './Reasoning';
import { Reference } from './Reference';
import { textOf } from './text';
import { ToolCall } from './ToolCall';
import { UserBlock } from './UserBlock';

export interface PartProps {
  chat: URI;
  turnId: string;
  part: ResponsePart;
  /** Whether this is where the answer grows now. */
  live: boolean;
  /** Whether the turn runs: only then can something be answered. */
  running: boolean;
  readOnly: boolean;
  me: string | undefined;
  /** For an error at the end of the last turn. */
  onRetry?: () => void;
}

/** One part of an answer, by its kind. */
export const Part = React.memo(function Part(props: PartProps): React.ReactElement | null {
  const { chat, turnId, part, live, running, readOnly, me, onRetry } = props;
  const { store, host } = useView();
  const { t } = host.words;
  switch (part.kind) {
    case 'markdown':
      return part.content ? <Markdown id={part.id} text={part.content} live={live} /> : null;
    case 'reasoning':
      return <Reasoning part={part} live={live} />;
    case 'toolCall': {
      const call = part.toolCall;
      if (running && call.status === 'pending-confirmation') {
        const answer = ({ approved, option, reason, input }: ApprovalAnswer): Promise<void> =>
          store.dispatched(chat, {
            type: 'chat/toolCallConfirmed',
            turnId,
            toolCallId: call.toolCallId,
            ...(option ? { selectedOptionId: option } : {}),
            ...(approved
              ? {
                  approved: true,
                  confirmed: 'user-action',
                  ...(input === undefined ? {} : { editedToolInput: input })
                }
              : { approved: false, reason: 'denied', ...(reason ? { reasonMessage: reason } : {}) })
          });
        return <Approval call={call} onAnswer={readOnly ? undefined : answer} />;
      }
      if (running && call.status === 'pending-result-confirmation') {
        const answer = ({ approved }: ApprovalAnswer): Promise<void> =>
          store.dispatched(chat, {
            type: 'chat/toolCallResultConfirmed',
            turnId,
            toolCallId: call.toolCallId,
            approved
          });
        return (
          <>
            <ToolCall call={call} />
            <Approval call={call} onAnswer={readOnly ? undefined : answer} />
          </>
        );
      }
      return <ToolCall call={call} />;
    }
    case 'systemNotification': {
      const said = steeringOf(part);
      return said ? (
        <UserBlock message={said} me={me} steering />
      ) : (
        <Notice>{textOf(part.content)}</Notice>
      );
    }
    case 'inputRequest': {
      const { request, response } = part;
      if (running && !response) {
        return (
          <Question
            key={request.id}
            request={request}
            onDraft={
              readOnly
                ? undefined
                : (questionId, answer) =>
                    store.dispatched(chat, {
                      type: 'chat/inputAnswerChanged',
                      requestId: request.id,
                      questionId,
                      answer
                    })
            }
            onAnswer={
              readOnly
                ? undefined
                : (answer, answers) =>
                    store.dispatched(chat, {
                      type: 'chat/inputCompleted',
                      requestId: request.id,
                      response: answer,
                      ...(answers ? { answers } : {})
                    })
            }
          />
        );
      }
      return (
        <div className="ahp-Line">
          {response === 'accept' ? (
            <Icon name="check" className="ahp-ok" label={t('Answered')} />
          ) : (
            <Icon name="cross" className="ahp-muted" label={t('Not answered')} />
          )}
          <span className="ahp-clip">
            <b>{t('Question')}</b> {textOf(request.message) || request.questions?.[0]?.message}
          </span>
          <span className="ahp-grow" />
          <span className="ahp-num">
            {response === 'accept' ? t('answered') : t('not answered')}
          </span>
        </div>
      );
    }
    case 'error':
      return <ErrorCard error={part.error} onRetry={onRetry} />;
    case 'contentRef':
      return <Reference content={part} />;
    default:
      return (
        <Notice>{t('A part of the answer that this version cannot show (%1)', part.kind)}</Notice>
      );
  }
});
