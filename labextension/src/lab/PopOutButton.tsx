import React from 'react';
import { IconButton } from '../view/IconButton';

export function PopOutButton(props: { label: string; onClick: () => void }): React.ReactElement {
  return <IconButton icon="popout" label={props.label} onClick={props.onClick} />;
}
