import React, { useEffect, useState } from 'react';
import { useView } from './host';
import { IconButton } from './IconButton';

const SAID_MS = 1500;

/** Copies, and says whether it did. */
export function CopyButton(props: {
  label: string;
  text: () => string;
  'data-action'?: string;
}): React.ReactElement {
  const { host } = useView();
  const { t } = host.words;
  const [done, setDone] = useState<boolean>();
  useEffect(() => {
    if (done === undefined) {
      return;
    }
    const timer = setTimeout(() => setDone(undefined), SAID_MS);
    return () => clearTimeout(timer);
  }, [done]);
  const label =
    done === undefined ? props.label : done ? t('Copied') : t('The browser did not allow copying');
  return (
    <IconButton
      icon={done === undefined ? 'copy' : done ? 'check' : 'warn'}
      label={label}
      data-action={props['data-action']}
      onClick={() =>
        void host.copy(props.text()).then(
          () => setDone(true),
          () => setDone(false)
        )
      }
    />
  );
}
