import React from 'react';

export type IconName =
  | 'archive'
  | 'attach'
  | 'back'
  | 'bell'
  | 'bot'
  | 'canvas'
  | 'cell'
  | 'chat'
  | 'check'
  | 'chevron'
  | 'clock'
  | 'compact'
  | 'copy'
  | 'cross'
  | 'down'
  | 'drag'
  | 'edit'
  | 'eye'
  | 'file'
  | 'folder'
  | 'fork'
  | 'help'
  | 'image'
  | 'insert'
  | 'info'
  | 'lock'
  | 'more'
  | 'offline'
  | 'pi'
  | 'plus'
  | 'popout'
  | 'queue'
  | 'retry'
  | 'replace'
  | 'rewind'
  | 'run'
  | 'search'
  | 'send'
  | 'shield'
  | 'spark'
  | 'spinner'
  | 'steer'
  | 'stop'
  | 'table'
  | 'terminal'
  | 'thought'
  | 'tool'
  | 'up'
  | 'warn';

/** An icon in the text colour; with a `label` it is an image for readers, else hidden from them. */
export function Icon(props: {
  name: IconName;
  label?: string;
  className?: string;
}): React.ReactElement {
  const { name, label, className } = props;
  return (
    <span
      className={className ? `ahp-Icon ${className}` : 'ahp-Icon'}
      data-icon={name}
      {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })}
    />
  );
}
