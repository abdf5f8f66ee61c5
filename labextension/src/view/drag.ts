import { useEffect, useRef, useState } from 'react';

/** The list with the item of that id at another place. */
export function movedTo(order: readonly string[], id: string, place: number): readonly string[] {
  const rest = order.filter(each => each !== id);
  const at = Math.min(rest.length, Math.max(0, place));
  return [...rest.slice(0, at), id, ...rest.slice(at)];
}

export interface Drag {
  /** The order as it is while something is dragged; undefined while nothing is. */
  readonly order: readonly string[] | undefined;
  readonly dragged: string | undefined;
  grab(event: React.PointerEvent<HTMLElement>, id: string, order: readonly string[]): void;
}

/**
 * Rows that are put into another order with a pointer: by mouse, pen or finger. The rows, marked with
 * `data-waiting`, are where the list now has them; Escape puts all back.
 */
export function useDrag(
  list: React.RefObject<HTMLElement>,
  onDrop: (order: readonly string[]) => void
): Drag {
  const [state, setState] = useState<{ id: string; order: readonly string[] }>();
  const latest = useRef(state);
  const drop = useRef(onDrop);
  drop.current = onDrop;
  const end = useRef<() => void>();
  useEffect(() => () => end.current?.(), []);

  const set = (value: typeof state): void => {
    latest.current = value;
    setState(value);
  };

  const grab: Drag['grab'] = (event, id, order) => {
    if (event.button !== 0) {
      return;
    }
    set({ id, order });
    const move = ({ clientY }: PointerEvent): void => {
      const now = latest.current?.order ?? order;
      const others = [...(list.current?.querySelectorAll<HTMLElement>('[data-waiting]') ?? [])]
        .filter(row => now.includes(row.dataset.waiting!) && row.dataset.waiting !== id)
        .map(row => row.getBoundingClientRect());
      const place = others.filter(box => box.top + box.height / 2 < clientY).length;
      set({ id, order: movedTo(now, id, place) });
    };
    const finish = (keep: boolean): void => {
      end.current?.();
      const now = latest.current?.order ?? order;
      set(undefined);
      if (keep && now.some((each, index) => each !== order[index])) {
        drop.current(now);
      }
    };
    const up = (): void => finish(true);
    const cancel = (): void => finish(false);
    const key = (pressed: KeyboardEvent): void => {
      if (pressed.key === 'Escape') {
        pressed.stopPropagation();
        cancel();
      }
    };
    end.current = () => {
      end.current = undefined;
      document.removeEventListener('pointermove', move);
      document.removeEventListener('pointerup', up);
      document.removeEventListener('pointercancel', cancel);
      document.removeEventListener('keydown', key, true);
    };
    document.addEventListener('pointermove', move);
    document.addEventListener('pointerup', up);
    document.addEventListener('pointercancel', cancel);
    document.addEventListener('keydown', key, true);
  };

  return { order: state?.order, dragged: state?.id, grab };
}
