import React, { useRef, useState } from 'react';
import { useWords } from './host';
import { Icon } from './Icon';
import { type PictureSource, usePicture } from './pictures';

/** A picture in an answer: as wide as there is room, larger or smaller by a press. */
export function Picture(props: { source: PictureSource; name: string }): React.ReactElement {
  const { source, name } = props;
  const { t } = useWords();
  const place = useRef<HTMLElement>(null);
  const { src, problem } = usePicture(source, place);
  const [large, setLarge] = useState(false);
  return (
    <figure ref={place} className={large ? 'ahp-Picture is-large' : 'ahp-Picture'}>
      {src ? (
        <button
          type="button"
          aria-pressed={large}
          title={large ? t('Show smaller') : t('Show larger')}
          onClick={() => setLarge(!large)}
        >
          <img alt={name} src={src} />
        </button>
      ) : (
        <figcaption className="ahp-Line">
          <Icon name={problem === undefined ? 'image' : 'warn'} />
          <span className="ahp-clip">{name}</span>
          {problem !== undefined && (
            <span className="ahp-muted">
              {t('cannot be shown: %1', problem || t('no picture'))}
            </span>
          )}
        </figcaption>
      )}
    </figure>
  );
}
