import React, { useEffect, useMemo, useState } from 'react';
import type { ContentRef, FileEdit } from '../ahp';
import { useConnection } from './connection';
import { diffLines, folded } from './diff';
import { useView } from './host';
import { Icon } from './Icon';
import { revealed } from './text';

/** More than this is not fetched to be compared. */
const LARGEST = 512 * 1024;

/** A change to a file: which, by how much, and what it is, line by line. */
export function EditDiff(props: { edit: FileEdit; open?: boolean }): React.ReactElement {
  const { edit } = props;
  const { t } = useView().host.words;
  const [open, setOpen] = useState(props.open ?? false);
  const { before, after, diff } = edit;
  const path = decoded(after?.uri ?? before?.uri ?? '');
  const what = !before ? t('New file') : !after ? t('Deleted') : t('Changed');
  return (
    <details
      className="ahp-Fold ahp-Edit"
      open={open}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary>
        <Icon name="file" />
        <span className="ahp-clip">
          <b>{what}</b> <code title={path}>{path.slice(path.lastIndexOf('/') + 1)}</code>
        </span>
        <span className="ahp-grow" />
        {diff && (
          <span className="ahp-num">
            <span className="ahp-ok">+{diff.added ?? 0}</span>{' '}
            <span className="ahp-bad">−{diff.removed ?? 0}</span>
          </span>
        )}
        <Icon name="chevron" className="ahp-Chevron" />
      </summary>
      {open && <Lines before={before?.content} after={after?.content} />}
    </details>
  );
}

function Lines(props: {
  before: ContentRef | undefined;
  after: ContentRef | undefined;
}): React.ReactElement {
  const { t, n } = useView().host.words;
  const before = useText(props.before);
  const after = useText(props.after);
  const problem = before.problem ?? after.problem;
  const lines = useMemo(
    () =>
      before.text === undefined || after.text === undefined
        ? undefined
        : folded(diffLines(before.text, after.text)),
    [before.text, after.text]
  );
  if (problem !== undefined) {
    return <p className="ahp-sub ahp-warn">{t('What changes cannot be shown: %1', problem)}</p>;
  }
  if (!lines) {
    return (
      <p className="ahp-sub">
        <Icon name="spinner" /> {t('Reading the file')}
      </p>
    );
  }
  return (
    <div className="ahp-Diff" role="group" aria-label={t('Changes')} tabIndex={0}>
      <table>
        <tbody>
          {lines.map((line, index) =>
            line.kind === 'gap' ? (
              <tr key={index} className="is-gap">
                <td colSpan={4}>{n('%1 line', '%1 lines', line.lines)}</td>
              </tr>
            ) : (
              <tr key={index} className={`is-${line.kind}`}>
                <td className="ahp-num">{line.before}</td>
                <td className="ahp-num">{line.after}</td>
                <td aria-label={signName(line.kind, t)}>
                  {line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ''}
                </td>
                <td>{revealed(line.text)}</td>
              </tr>
            )
          )}
        </tbody>
      </table>
    </div>
  );
}

function signName(kind: string, t: (text: string) => string): string | undefined {
  return kind === 'added' ? t('added') : kind === 'removed' ? t('removed') : undefined;
}

/** The text of one side; of a side that there is not, none. */
function useText(ref: ContentRef | undefined): { text?: string; problem?: string } {
  const { store, host } = useView();
  const { t } = host.words;
  const open = useConnection().status === 'open';
  const [read, setRead] = useState<{ text?: string; problem?: string }>(ref ? {} : { text: '' });
  const uri = ref?.uri;
  const large = (ref?.sizeHint ?? 0) > LARGEST;
  useEffect(() => {
    if (uri === undefined) {
      setRead({ text: '' });
      return;
    }
    if (large) {
      setRead({ problem: t('the file is too large.') });
      return;
    }
    if (!open) {
      return;
    }
    let gone = false;
    store.resources
      .read(uri)
      .then(blob =>
        blob.size > LARGEST ? { problem: t('the file is too large.') } : textOf(blob, t)
      )
      .catch((error: Error) => ({ problem: error.message }))
      .then(result => !gone && setRead(result));
    return () => {
      gone = true;
    };
  }, [store, uri, large, open, t]);
  return read;
}

async function textOf(
  blob: Blob,
  t: (text: string) => string
): Promise<{ text?: string; problem?: string }> {
  const text = await blob.text();
  return text.includes('\0') ? { problem: t('the file is no text.') } : { text };
}

function decoded(uri: string): string {
  try {
    return decodeURIComponent(uri);
  } catch {
    return uri; // percent signs that are meant
  }
}
