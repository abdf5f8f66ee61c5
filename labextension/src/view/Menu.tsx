import React, { useEffect, useRef } from 'react';
import { Icon, type IconName } from './Icon';

export interface MenuItem {
  readonly label: string;
  readonly icon: IconName;
  readonly shortcut?: string;
  readonly danger?: boolean;
  run(): void;
}

/** A list of actions under a button: arrows choose, Escape and a click elsewhere close. */
export function Menu(props: {
  label: string;
  items: readonly MenuItem[];
  onClose: () => void;
}): React.ReactElement {
  const { label, items, onClose } = props;
  const root = useRef<HTMLDivElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const from = document.activeElement;
    root.current?.querySelector('button')?.focus();
    const outside = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) {
        close.current();
      }
    };
    document.addEventListener('pointerdown', outside, true);
    return () => {
      document.removeEventListener('pointerdown', outside, true);
      // what an item opened, such as a field, keeps the focus that it took
      const lost = document.activeElement === document.body || !document.activeElement;
      if (lost && from instanceof HTMLElement && from.isConnected) {
        from.focus();
      }
    };
  }, []);
  const onKeyDown = (event: React.KeyboardEvent): void => {
    const buttons = [...(root.current?.querySelectorAll('button') ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to =
      event.key === 'ArrowDown'
        ? (at + 1) % buttons.length
        : event.key === 'ArrowUp'
          ? (at - 1 + buttons.length) % buttons.length
          : event.key === 'Home'
            ? 0
            : event.key === 'End'
              ? buttons.length - 1
              : -1;
    if (event.key === 'Escape' || event.key === 'Tab') {
      onClose();
    } else if (to < 0) {
      return;
    } else {
      buttons[to]?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={root}
      className="ahp-Popup ahp-Menu"
      role="menu"
      aria-label={label}
      onKeyDown={onKeyDown}
    >
      {items.map(item => (
        <button
          key={item.label}
          type="button"
          role="menuitem"
          tabIndex={-1}
          className={item.danger ? 'ahp-Item ahp-bad' : 'ahp-Item'}
          onClick={() => {
            onClose();
            item.run();
          }}
        >
          <Icon name={item.icon} className={item.danger ? 'ahp-bad' : undefined} />
          <span className="ahp-grow">{item.label}</span>
          {item.shortcut && <kbd className="ahp-Kbd">{item.shortcut}</kbd>}
        </button>
      ))}
    </div>
  );
}
