import React from 'react';
import type { Message } from '../ahp';
import { Chips } from './Chips';
import { useCommandPrefix } from './connection';
import { useWords } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { nameOf } from './people';
import { isCommand } from './text';

/** What a person said, as typed, and what they attached. */
export const UserBlock = React.memo(function UserBlock(props: {
  message: Message;
  me: string | undefined;
  /** It was said while a turn ran, and stands where it was taken. */
  steering?: boolean;
  /** Puts it into the box, to be sent again in its place. */
  onEdit?: () => void;
}) {
  const { t } = useWords();
  const { message, me, steering = false, onEdit } = props;
  const name = nameOf(message, me);
  const prefix = useCommandPrefix();
  const command = !steering && prefix && isCommand(message.text, prefix) ? prefix : undefined;
  const kindOf = message.origin.kind;
  const notPerson =
    kindOf === 'user'
      ? undefined
      : kindOf === 'agent'
        ? t('Said by the agent')
        : t('Not said by a person');
  const heading =
    notPerson !== undefined
      ? notPerson
      : command
        ? name
          ? t('%1 ran', name)
          : t('You ran')
        : steering
          ? name
            ? t('%1 said while it worked', name)
            : t('You said while it worked')
          : name
            ? t('%1 said', name)
            : t('You said');
  const Heading = steering ? 'h3' : 'h2';
  const kind = command ? ' is-command' : steering ? ' is-steer' : '';
  return (
    <div className={`ahp-User${kind}`} role={steering ? 'group' : undefined}>
      <Heading className="ahp-sr">{heading}</Heading>
      {steering ? (
        <div className="ahp-User-who" aria-hidden="true">
          <Icon name="steer" className="ahp-brand" />
          <bdi>
            <b>{name ?? t('You')}</b> {t('while it worked, taken here')}
          </bdi>
        </div>
      ) : (
        (name || notPerson) && (
          <div className="ahp-User-who" aria-hidden="true">
            <b>
              <bdi>{notPerson ?? name}</bdi>
            </b>
          </div>
        )
      )}
      {command ? (
        <pre>
          <b>{command}</b>
          {message.text.slice(command.length)}
        </pre>
      ) : (
        message.text && <p dir="auto">{message.text}</p>
      )}
      {message.attachments && message.attachments.length > 0 && (
        <Chips attachments={message.attachments} />
      )}
      {onEdit && message.origin.kind === 'user' && (
        <IconButton
          icon="edit"
          className="ahp-User-edit ahp-idle"
          label={t('Edit and resend')}
          shortcut="E"
          data-action="edit"
          onClick={onEdit}
        />
      )}
    </div>
  );
});
