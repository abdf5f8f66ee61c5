import React, { useRef, useState } from 'react';
import { type Attachment, offeredBy } from '../ahp';
import { cellOf, isCell } from './cells';
import { bytes } from './format';
import { useView } from './host';
import { Icon, type IconName } from './Icon';
import { IconButton } from './IconButton';
import { Picture } from './Picture';
import { type PictureSource, pictureIn, usePicture } from './pictures';

export function iconOf(attachment: Attachment): IconName {
  if (attachment.type === 'chat') {
    return 'chat';
  }
  if (isCell(attachment)) {
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

/** What a message carries: what it is, its name, its size or a thumbnail; pictures open under it. */
export function Chips(props: {
  attachments: readonly Attachment[];
  onRemove?: (index: number) => void;
}): React.ReactElement {
  const { store, host } = useView();
  const { n, t } = host.words;
  const { attachments, onRemove } = props;
  const [open, setOpen] = useState<number>();
  const [problem, setProblem] = useState<string>();
  const opened = open === undefined ? undefined : attachments[open];
  const picture = opened && pictureIn(opened);
  return (
    <>
      <ul
        role="list"
        className="ahp-Chips"
        aria-label={n('%1 attachment', '%1 attachments', attachments.length)}
      >
        {attachments.map((attachment, index) => {
          const lost = isLost(attachment, uri => store.offers.get(uri) !== undefined);
          const shown = lost ? undefined : pictureIn(attachment);
          const cell = host.showCell && cellOf(attachment);
          const size = sizeOf(attachment);
          return (
            <li key={index} className={onRemove ? 'ahp-Chip has-remove' : 'ahp-Chip'}>
              {shown ? (
                <Thumbnail
                  source={shown}
                  label={attachment.label}
                  open={index === open}
                  pending={onRemove !== undefined}
                  onToggle={() => setOpen(index === open ? undefined : index)}
                />
              ) : (
                <>
                  <Icon
                    name={lost ? 'warn' : iconOf(attachment)}
                    className={lost ? 'ahp-warn' : undefined}
                  />
                  {cell ? (
                    <button
                      type="button"
                      className="ahp-Chip-cell ahp-clip"
                      title={t('Go to the cell')}
                      onClick={() => {
                        setProblem(undefined);
                        host.showCell?.(cell).catch((error: Error) => setProblem(error.message));
                      }}
                    >
                      {attachment.label}
                    </button>
                  ) : (
                    <span className="ahp-clip">{attachment.label}</span>
                  )}
                  {lost ? (
                    <span className="ahp-muted">{t('not here any more, attach it again')}</span>
                  ) : (
                    size !== undefined && <span className="ahp-muted">{bytes(size)}</span>
                  )}
                </>
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
      {problem && (
        <p className="ahp-sub ahp-bad" role="alert">
          {problem}
        </p>
      )}
      {opened && picture && <Picture source={picture} name={opened.label} />}
    </>
  );
}

/** Whether only a page that is gone had it. `here` says what this page has. */
export function isLost(attachment: Attachment, here: (uri: string) => boolean): boolean {
  return (
    attachment.type === 'resource' &&
    offeredBy(attachment.uri) !== undefined &&
    !here(attachment.uri)
  );
}

function Thumbnail(props: {
  source: PictureSource;
  label: string;
  open: boolean;
  /** It is not sent yet: what is at the host is no chat's, and cannot be looked at. */
  pending: boolean;
  onToggle: () => void;
}): React.ReactElement {
  const { source, label, open, pending, onToggle } = props;
  const place = useRef<HTMLButtonElement>(null);
  const { src, problem } = usePicture(source, place);
  return (
    <button
      ref={place}
      type="button"
      className="ahp-Chip-picture"
      aria-expanded={open}
      onClick={onToggle}
      title={problem}
    >
      {src ? (
        <img className="ahp-Thumb" alt="" src={src} />
      ) : (
        <Icon name={problem === undefined || pending ? 'image' : 'warn'} />
      )}
      <span className="ahp-clip">{label}</span>
    </button>
  );
}
