import React from 'react';
import type { Attachment } from '../ahp';
import { bytes } from './format';
import { useWords } from './host';
import { Icon, type IconName } from './Icon';
import { IconButton } from './IconButton';

export function iconOf(attachment: Attachment): IconName {
  if (attachment.type === 'chat') {
    return 'chat';
  }
  if (attachment._meta?.['jupyter-ahp.kind'] === 'cell') {
    return 'cell';
  }
  const contentType = 'contentType' in attachment ? (attachment.contentType ?? '') : '';
  if (attachment.displayKind === 'image' || contentType.startsWith('image/')) {
    return 'image';
  }
  if (attachment.displayKind === 'command') {
    return 'spark';
  }
  if (attachment.displayKind === 'directory') {
    return 'folder';
  }
  return /csv|spreadsheet|parquet/.test(contentType) ? 'table' : 'file';
}

function sizeOf(attachment: Attachment): number | undefined {
  if (attachment.type === 'embeddedResource') {
    return Math.floor(attachment.data.length * 0.75);
  }
  return attachment.type === 'resource' ? attachment.sizeHint : undefined;
}

const THUMBNAIL = /^image\/(?:png|jpeg|gif|webp)$/;

/** What a message carries: what it is, its name, its size or a thumbnail. */
export function Chips(props: {
  attachments: readonly Attachment[];
  onRemove?: (index: number) => void;
}): React.ReactElement {
  const { n, t } = useWords();
  const { attachments, onRemove } = props;
  return (
    <ul
      role="list"
      className="ahp-Chips"
      aria-label={n('%1 attachment', '%1 attachments', attachments.length)}
    >
      {attachments.map((attachment, index) => {
        const size = sizeOf(attachment);
        const picture =
          attachment.type === 'embeddedResource' && THUMBNAIL.test(attachment.contentType);
        return (
          <li key={index} className={onRemove ? 'ahp-Chip has-remove' : 'ahp-Chip'}>
            <Icon name={iconOf(attachment)} />
            <span className="ahp-clip">{attachment.label}</span>
            {picture ? (
              <img
                className="ahp-Thumb"
                alt=""
                src={`data:${attachment.contentType};base64,${attachment.data}`}
              />
            ) : (
              size !== undefined && <span className="ahp-muted">{bytes(size)}</span>
            )}
            {onRemove && (
              <IconButton
                icon="cross"
                label={t('Remove %1', attachment.label)}
                onClick={() => onRemove(index)}
              />
            )}
          </li>
        );
      })}
    </ul>
  );
}
