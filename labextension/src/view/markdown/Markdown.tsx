import React, { useLayoutEffect, useRef } from 'react';
import { useView } from '../host';
import { MarkdownStream } from './stream';

/** Markdown that may still grow: only what comes is rendered. */
export const Markdown = React.memo(function Markdown(props: {
  text: string;
  live?: boolean;
  /** Which part of an answer it is. */
  id?: string;
}) {
  const { text, live = false, id } = props;
  const { host } = useView();
  const root = useRef<HTMLDivElement>(null);
  const stream = useRef<{ host: unknown; it: MarkdownStream } | null>(null);

  useLayoutEffect(() => {
    if (!root.current) {
      return;
    }
    if (stream.current?.host !== host) {
      root.current.replaceChildren();
      stream.current = { host, it: new MarkdownStream(root.current, host) };
    }
    stream.current.it.update(text, live);
  }, [host, text, live]);

  return <div ref={root} className={live ? 'ahp-Md is-live' : 'ahp-Md'} data-part={id} />;
});
