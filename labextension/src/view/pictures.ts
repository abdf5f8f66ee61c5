import { type RefObject, useEffect, useState } from 'react';
import type { Attachment, ContentRef, URI } from '../ahp';
import { useConnection } from './connection';
import { useView } from './host';
import { useSeen } from './use';

/**
 * What is drawn as a picture. SVG is not: opened by itself, as a browser's menu offers, it would be a page of this
 * origin, with its scripts.
 */
const DRAWN = /^image\/(?:png|jpeg|gif|webp)$/;
/** More than this is not fetched to be looked at. */
const LARGEST = 24 * 2 ** 20;

/** Something that can be drawn: by its bytes, or by the place to read them from. */
export type PictureSource =
  | { readonly data: string; readonly contentType: string }
  | { readonly uri: URI; readonly fixed: boolean };

export function isDrawn(contentType: string | undefined): boolean {
  return contentType !== undefined && DRAWN.test(contentType);
}

/** The picture that an attachment is, if it is one. */
export function pictureIn(attachment: Attachment): PictureSource | undefined {
  if (attachment.type === 'embeddedResource') {
    return isDrawn(attachment.contentType) ? attachment : undefined;
  }
  if (attachment.type !== 'resource') {
    return undefined;
  }
  return pictureAt(attachment, isCopy(attachment));
}

/** The picture behind a reference, by what it says of itself. `fixed`: it never changes. */
export function pictureAt(
  { uri, contentType, sizeHint = 0 }: ContentRef,
  fixed = false
): PictureSource | undefined {
  const named = contentType ?? typeOf(uri);
  return isDrawn(named) && sizeHint <= LARGEST ? { uri, fixed } : undefined;
}

/** Whether an attachment is the message's own copy, which nobody writes to. */
function isCopy({ _meta }: Attachment): boolean {
  const tag = _meta?.['vscode.agentHost.snapshotAttachment'];
  return typeof tag === 'object' && tag !== null;
}

const TYPES: Readonly<Record<string, string>> = {
  gif: 'image/gif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp'
};

function typeOf(uri: URI): string | undefined {
  return TYPES[/\.([a-z]+)$/i.exec(uri)?.[1]?.toLowerCase() ?? ''];
}

/** What there is to draw now: an address for an `img`, or why there is none. */
export interface Shown {
  readonly src?: string;
  readonly problem?: string;
}

/** Fetches a picture once its place comes into view, and gives its memory back when it goes. */
export function usePicture(source: PictureSource | undefined, place: RefObject<Element>): Shown {
  const { store } = useView();
  const open = useConnection().status === 'open';
  const seen = useSeen(place);
  const [shown, setShown] = useState<Shown>({});
  const uri = source && 'uri' in source ? source.uri : undefined;
  const fixed = source && 'fixed' in source ? source.fixed : false;
  const own = uri !== undefined && store.offers.get(uri) !== undefined;
  const wanted = seen && uri !== undefined && (open || own);
  useEffect(() => {
    if (!wanted) {
      return;
    }
    let address: string | undefined;
    let gone = false;
    store.resources.read(uri, { keep: fixed }).then(
      blob => {
        if (gone) {
          return;
        }
        if (!isDrawn(blob.type)) {
          setShown({ problem: blob.type });
          return;
        }
        address = URL.createObjectURL(blob);
        setShown({ src: address });
      },
      (error: Error) => !gone && setShown({ problem: error.message })
    );
    return () => {
      gone = true;
      if (address) {
        URL.revokeObjectURL(address);
      }
    };
  }, [store, uri, fixed, wanted]);
  return source && 'data' in source
    ? { src: `data:${source.contentType};base64,${source.data}` }
    : shown;
}
