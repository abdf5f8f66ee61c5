import React from 'react';
import type { Message } from '../ahp';
import { Chips } from './Chips';
import { useWords } from './host';
import { nameOf } from './people';

/** What a person said, as typed, and what they attached. */
export const UserBlock = React.memo(function UserBlock(props: {
  message: Message;
  me: string | undefined;
}) {
  const { t } = useWords();
  const { message, me } = props;
  const name = nameOf(message, me);
  const command = /^!\s*\S/.test(message.text);
  const heading =
    message.origin.kind !== 'user'
      ? t('Said by the host')
      : command
        ? name
          ? t('%1 ran', name)
          : t('You ran')
        : name
          ? t('%1 said', name)
          : t('You said');
  return (
    <div className={command ? 'ahp-User is-command' : 'ahp-User'}>
      <h2 className="ahp-sr">{heading}</h2>
      {name && (
        <div className="ahp-User-who" aria-hidden="true">
          <b>
            <bdi>{name}</bdi>
          </b>
        </div>
      )}
      {command ? (
        <pre>
          <b>!</b>
          {message.text.slice(1)}
        </pre>
      ) : (
        message.text && <p dir="auto">{message.text}</p>
      )}
      {message.attachments && message.attachments.length > 0 && (
        <Chips attachments={message.attachments} />
      )}
    </div>
  );
});
