import React from 'react';
import { Icon, type IconName } from './Icon';

/** A line above the composer that says what is wrong or what waits. */
export function Strip(props: {
  icon: IconName;
  tone?: 'warn' | 'bad' | 'muted';
  role?: 'status' | 'alert' | 'note';
  children: React.ReactNode;
  action?: React.ReactNode;
}): React.ReactElement {
  const { icon, tone = 'muted', role = 'status', children, action } = props;
  return (
    <div className="ahp-Strip" role={role}>
      <Icon name={icon} className={`ahp-${tone}`} />
      <p>{children}</p>
      {action}
    </div>
  );
}
