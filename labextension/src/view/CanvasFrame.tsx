import React, { useEffect, useState } from 'react';
import { type CanvasState, isNotFound, type URI } from '../ahp';
import { useView } from './host';
import { useChannel, useSubscription } from './use';

/** The address that a frame may be given: of the web, and nothing else that a browser would do something with. */
export function frameAddress(url: string | undefined): string | undefined {
  if (!url) {
    return undefined;
  }
  try {
    const { protocol, href } = new URL(url);
    return protocol === 'https:' || protocol === 'http:' ? href : undefined;
  } catch {
    return undefined; // no absolute address
  }
}

export interface CanvasShown {
  readonly state: CanvasState | undefined;
  /** Whether it is closed for good. */
  readonly gone: boolean;
  /** For people: why there is nothing to see. */
  readonly problem: string | undefined;
}

/** A canvas as it is now (AHP 5.2). */
export function useCanvas(canvas: URI): CanvasShown {
  useSubscription(canvas);
  const state = useChannel<CanvasState, CanvasState | undefined>(canvas, view => view.state);
  const error = useChannel<CanvasState, Error | undefined>(canvas, view => view.error);
  const missing = useChannel<CanvasState, boolean>(canvas, view => view.status === 'missing');
  return { state, gone: missing || isNotFound(error), problem: error?.message };
}

/** What a page may do that comes without the headers of a server: draw, and run scripts that reach nobody. */
const POLICY =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob: data:; style-src 'unsafe-inline' blob: data:; " +
  "img-src data: blob:; font-src data: blob:; media-src data: blob:; worker-src blob: data:; form-action 'none'; " +
  "base-uri 'none'";

/** The page itself, for who cannot reach the address of one, such as a widget that goes through its kernel. */
function usePage(canvas: URI, state: CanvasState | undefined): string | undefined {
  const { store } = useView();
  const [page, setPage] = useState<string>();
  const hidden = state !== undefined && !state.url;
  useEffect(() => {
    if (!hidden) {
      setPage(undefined);
      return;
    }
    let gone = false;
    store.resources
      .read(canvas)
      .then(blob => blob.text())
      .then(
        html => !gone && setPage(html),
        () => !gone && setPage(undefined) // it has none: what is said of a canvas without an address is right
      );
    return () => {
      gone = true;
    };
    // each state may be of another page
  }, [store, canvas, hidden, state]);
  return page;
}

/**
 * A plugin's page, which nobody here has to trust: it may run its scripts, and has no origin. So it has no cookies and no
 * storage, reads nothing of this page or its server, opens nothing, asks nothing, sends no form and leads nowhere. It
 * is not told where it is shown.
 */
export function CanvasFrame(props: {
  uri: URI;
  canvas: CanvasShown;
  height?: number;
}): React.ReactElement {
  const { t } = useView().host.words;
  const { uri, canvas, height } = props;
  const { state, gone, problem } = canvas;
  const address = frameAddress(state?.url);
  const page = usePage(uri, gone ? undefined : state);
  if (gone || !state || !(address || page !== undefined)) {
    const words = gone
      ? t('This canvas was closed.')
      : problem
        ? t('This canvas cannot be shown. %1', problem)
        : !state
          ? t('Opening the canvas')
          : state.url
            ? t('This canvas cannot be shown: its address is none of the web.')
            : t('There is nothing to see at the moment: what draws here is not there.');
    return (
      <div className="ahp-CanvasGone" style={{ height }} role="note">
        {words}
      </div>
    );
  }
  return (
    <iframe
      className="ahp-CanvasFrame"
      style={{ height }}
      title={state.title || t('Canvas')}
      {...(address
        ? { src: address }
        : { srcDoc: `<meta http-equiv="Content-Security-Policy" content="${POLICY}">${page}` })}
      sandbox="allow-scripts"
      allow=""
      referrerPolicy="no-referrer"
      loading="lazy"
    />
  );
}
