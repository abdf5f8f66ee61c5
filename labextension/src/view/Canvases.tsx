import React, { useEffect, useRef, useState } from 'react';
import type { URI } from '../ahp';
import { CanvasFrame, useCanvas } from './CanvasFrame';
import { Grip } from './Grip';
import { useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { useChat } from './use';

const HEIGHT = 260;

/** The pages that plugins draw on a chat, in the order in which they were opened (V1). */
export function Canvases({ chat }: { chat: URI }): React.ReactElement | null {
  const canvases = useChat(chat, state => state?.canvases);
  return (
    <>
      {canvases?.map(({ resource }) => (
        <CanvasCard key={resource} canvas={resource} chat={chat} />
      ))}
    </>
  );
}

function CanvasCard(props: { canvas: URI; chat: URI }): React.ReactElement {
  const { canvas, chat } = props;
  const { host } = useView();
  const { t } = host.words;
  const shown = useCanvas(canvas);
  const [open, setOpen] = useState(true);
  const turn = useChat(chat, state => state?.activeTurn?.id);
  const before = useRef(turn);
  // A page stands behind all turns: it makes room for what is asked next.
  useEffect(() => {
    if (turn !== undefined && turn !== before.current) {
      setOpen(false);
    }
    before.current = turn ?? before.current;
  }, [turn]);
  const [height, setHeight] = useState(HEIGHT);
  const title = shown.state?.title || t('Canvas');
  const { openCanvas } = host;
  return (
    <section className="ahp-Canvas" aria-label={t('Canvas: %1', title)}>
      <header>
        <Icon name="canvas" />
        <h3 className="ahp-clip">{title}</h3>
        <span className="ahp-clip ahp-muted" role="status">
          {shown.state?.status}
        </span>
        <span className="ahp-grow" />
        {openCanvas && (
          <IconButton
            icon="popout"
            label={t('Open in a tab')}
            onClick={() => {
              setOpen(false);
              openCanvas(canvas, chat);
            }}
          />
        )}
        <IconButton
          icon={open ? 'down' : 'chevron'}
          label={open ? t('Fold') : t('Show here')}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        />
      </header>
      {open && (
        <>
          <CanvasFrame uri={canvas} canvas={shown} height={height} />
          <Grip label={t('Height of the canvas')} height={height} onHeight={setHeight} />
        </>
      )}
    </section>
  );
}
