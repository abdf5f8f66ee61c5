import React from 'react';
import { Elapsed } from './Elapsed';
import { useWords } from './host';
import { Icon } from './Icon';

/** What it does now, in words, and for how long. */
export function Working(props: {
  activity: string | undefined;
  since: number;
}): React.ReactElement {
  const { t } = useWords();
  return (
    <div className="ahp-Parts">
      <div className="ahp-Line ahp-Working">
        <Icon name="spinner" />
        <span dir="auto">{props.activity || t('Thinking')}</span>
        <span className="ahp-grow" />
        <span className="ahp-num">
          <Elapsed since={props.since} />
        </span>
      </div>
    </div>
  );
}
