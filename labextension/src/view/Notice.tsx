import React from 'react';
import { Icon, type IconName } from './Icon';

/** One line from the system, between hairlines. */
export function Notice(props: { icon?: IconName; children: React.ReactNode }): React.ReactElement {
  return (
    <div className="ahp-Notice" role="note">
      <Icon name={props.icon ?? 'info'} />
      <span>{props.children}</span>
    </div>
  );
}
