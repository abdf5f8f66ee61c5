import type { AhpStore, Attachment } from '../ahp';
import { bytes } from './format';
import { isDrawn } from './pictures';
import { sentence } from './text';
import type { Words } from './words';

/**
 * The files that were pasted or dropped. What has a text, too, is a text: an office program puts a picture of it beside
 * what somebody copied.
 */
export function filesIn(data: DataTransfer | null): readonly File[] {
  return data && !data.types.includes('text/plain') ? [...data.files] : [];
}

/** The names of the folders among what was dropped: a browser does not say what is in them. */
function foldersIn(data: DataTransfer | null): ReadonlySet<string> {
  const entries = [...(data?.items ?? [])].map(item => item.webkitGetAsEntry?.());
  return new Set(entries.flatMap(entry => (entry?.isDirectory ? [entry.name] : [])));
}

/** More than this is not held in memory. */
const LARGE = 32 * 2 ** 20;

export interface Taken {
  readonly attachments: readonly Attachment[];
  /** For people: what could not be attached, and why. */
  readonly refused: readonly string[];
}

/** Holds files for the host to read, as attachments of a message that is being written. `limit` in bytes, 0 = any. */
export async function takeFiles(
  store: AhpStore,
  files: readonly File[],
  limit: number,
  { t }: Words
): Promise<Taken> {
  const attachments: Attachment[] = [];
  const refused: string[] = [];
  for (const file of files) {
    const label = file.name || 'file';
    if (limit && file.size > limit) {
      refused.push(t('%1 has %2, over %3.', label, bytes(file.size), bytes(limit)));
      continue;
    }
    let content: Blob;
    try {
      // as it is now: it may be changed, or gone, when the host asks for it; a large one is read as it goes
      content =
        file.size > LARGE ? file : new Blob([await file.arrayBuffer()], { type: file.type });
    } catch {
      refused.push(t('%1 could not be read.', label));
      continue;
    }
    try {
      attachments.push({
        type: 'resource',
        uri: await store.attach(content, label),
        label,
        sizeHint: content.size,
        ...(file.type ? { contentType: file.type } : {}),
        ...(isDrawn(file.type) ? { displayKind: 'image' } : {})
      });
    } catch (error) {
      refused.push(`${label}: ${sentence((error as Error).message)}`);
    }
  }
  return { attachments, refused };
}

/** What of a drop can be attached, and what cannot, for people. */
export function dropped(
  data: DataTransfer,
  { t }: Words
): { readonly files: readonly File[]; readonly refused: readonly string[] } {
  const folders = foldersIn(data);
  return {
    files: filesIn(data).filter(({ name }) => !folders.has(name)),
    refused: [...folders].map(name =>
      t('%1 is a folder. Type @ to name one that the server has.', name)
    )
  };
}
