import React from 'react';
import type { ContentRef } from '../ahp';
import { bytes } from './format';
import { Icon } from './Icon';
import { Picture } from './Picture';
import { pictureAt } from './pictures';

/** Content that an answer names and does not hold: drawn if it is a picture, else named. */
export function Reference({ content }: { content: ContentRef }): React.ReactElement {
  const { uri, sizeHint } = content;
  const source = pictureAt(content, content.nonce !== undefined);
  if (source) {
    return <Picture source={source} name={nameIn(uri)} />;
  }
  return (
    <div className="ahp-Line">
      <Icon name="file" />
      <span className="ahp-clip ahp-mono" title={uri}>
        {nameIn(uri)}
      </span>
      <span className="ahp-grow" />
      {sizeHint !== undefined && <span className="ahp-num">{bytes(sizeHint)}</span>}
    </div>
  );
}

/** The last piece of a URI's path, as people read it; all of it if there is none. */
function nameIn(uri: string): string {
  const last = /([^/]+)\/?$/.exec(uri.replace(/[?#].*$/s, ''))?.[1] ?? uri;
  try {
    return decodeURIComponent(last);
  } catch {
    return last; // percent signs that are meant
  }
}
