import React from 'react';
import { Icon, type IconName } from './Icon';

interface Props extends Omit<React.ButtonHTMLAttributes<HTMLButtonElement>, 'title'> {
  icon: IconName;
  label: string;
  /** The key that does the same, for the tooltip. */
  shortcut?: string;
  /** What it does to its turn, for the keys that do the same. */
  'data-action'?: string;
}

/** A button that is an icon alone: named for readers, with a tooltip for everyone else. */
export const IconButton = React.forwardRef<HTMLButtonElement, Props>(function IconButton(
  { icon, label, shortcut, className, ...rest },
  ref
) {
  return (
    <button
      ref={ref}
      type="button"
      className={className ? `ahp-IconBtn ${className}` : 'ahp-IconBtn'}
      aria-label={label}
      title={shortcut ? `${label} (${shortcut})` : label}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
});
