import React, { useEffect, useState } from 'react';
import { useWords } from './host';
import { Icon } from './Icon';
import type { Selection } from './turnActions';

interface Picked {
  readonly turnId: string;
  readonly selection: Selection;
  readonly top: number;
  readonly left: number;
}

const WIDTH_PX = 110;
const LONGEST = 4000;

/** What is picked in one answer of the log, and where it ends; undefined for anything else. */
function picked(log: HTMLElement): Picked | undefined {
  const chosen = log.ownerDocument.getSelection();
  if (!chosen || chosen.isCollapsed || chosen.rangeCount === 0) {
    return undefined;
  }
  const partOf = (node: Node | null): HTMLElement | null =>
    (node instanceof Element ? node : node?.parentElement)?.closest<HTMLElement>('.ahp-Md') ?? null;
  const part = partOf(chosen.anchorNode);
  const turn = part?.closest<HTMLElement>('[data-turn]');
  const text = chosen.toString().trim().slice(0, LONGEST);
  if (!part || !turn || !text || !log.contains(turn)) {
    return undefined;
  }
  const end = partOf(chosen.focusNode);
  if (end?.closest('[data-turn]') !== turn) {
    return undefined;
  }
  const box = log.getBoundingClientRect();
  const range = chosen.getRangeAt(0).getBoundingClientRect?.() ?? box;
  return {
    turnId: turn.dataset.turn!,
    selection: {
      text,
      ...(end === part && part.dataset.part ? { responsePartId: part.dataset.part } : {})
    },
    top: range.bottom - box.top + log.scrollTop + 4,
    left: Math.max(8, Math.min(range.right - box.left - WIDTH_PX / 2, box.width - WIDTH_PX - 8))
  };
}

/** A small button where words of an answer are selected: a chat about just these. */
export function SelectionButton(props: {
  log: React.RefObject<HTMLElement>;
  onAside: (turnId: string, selection: Selection) => void;
}): React.ReactElement | null {
  const { log, onAside } = props;
  const { t } = useWords();
  const [shown, setShown] = useState<Picked>();
  useEffect(() => {
    const document = log.current?.ownerDocument;
    let frame = 0;
    const look = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => setShown(log.current ? picked(log.current) : undefined));
    };
    document?.addEventListener('selectionchange', look);
    return () => {
      cancelAnimationFrame(frame);
      document?.removeEventListener('selectionchange', look);
    };
  }, [log]);
  if (!shown) {
    return null;
  }
  return (
    <button
      type="button"
      className="ahp-Btn is-small ahp-Picked"
      style={{ top: shown.top, left: shown.left }}
      // the selection stays while it is pressed
      onPointerDown={event => event.preventDefault()}
      onClick={() => {
        onAside(shown.turnId, shown.selection);
        log.current?.ownerDocument.getSelection()?.removeAllRanges();
      }}
    >
      <Icon name="chat" />
      {t('Side chat')}
    </button>
  );
}
