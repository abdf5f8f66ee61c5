import React, { useRef } from 'react';

export const LOWEST = 120;
export const HIGHEST = 1200;
const STEP = 16;

/** Where the height is taken in hand: by pointer, or by arrow keys. */
export function Grip(props: {
  label: string;
  height: number;
  onHeight: (height: number) => void;
  /** Once it is let go. */
  onDone?: () => void;
}): React.ReactElement {
  const { label, height, onHeight, onDone } = props;
  const drag = useRef<{ y: number; height: number }>();
  const set = (value: number): void =>
    onHeight(Math.round(Math.min(HIGHEST, Math.max(LOWEST, value))));
  return (
    <div
      className="ahp-Grip"
      role="separator"
      aria-orientation="horizontal"
      aria-label={label}
      aria-valuenow={height}
      aria-valuemin={LOWEST}
      aria-valuemax={HIGHEST}
      tabIndex={0}
      data-lm-suppress-shortcuts="true"
      onPointerDown={event => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { y: event.clientY, height };
      }}
      onPointerMove={event => {
        if (drag.current) {
          set(drag.current.height + event.clientY - drag.current.y);
        }
      }}
      onPointerUp={() => {
        drag.current = undefined;
        onDone?.();
      }}
      onPointerCancel={() => (drag.current = undefined)}
      onKeyDown={event => {
        const to =
          event.key === 'ArrowDown'
            ? height + STEP
            : event.key === 'ArrowUp'
              ? height - STEP
              : event.key === 'Home'
                ? LOWEST
                : event.key === 'End'
                  ? HIGHEST
                  : undefined;
        if (to !== undefined) {
          event.preventDefault();
          event.stopPropagation();
          set(to);
          onDone?.();
        }
      }}
    />
  );
}
