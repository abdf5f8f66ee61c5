import React from 'react';
import { useWords } from './host';
import { IconButton } from './IconButton';

/** The chat's title, whose it is, and the way back to the list where there is no room for both. */
export function Head(props: {
  title: string;
  line: string;
  onBack?: () => void;
  children?: React.ReactNode;
}): React.ReactElement {
  const { t } = useWords();
  const { title, line, onBack, children } = props;
  return (
    <header className="ahp-Head">
      {onBack && <IconButton icon="back" label={t('All chats')} onClick={onBack} />}
      <h1 className="ahp-clip" title={title}>
        {title}
        <small className="ahp-clip">{line}</small>
      </h1>
      {children}
    </header>
  );
}
