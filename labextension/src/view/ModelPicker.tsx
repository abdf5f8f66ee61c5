import React from 'react';
import type { SessionModelInfo } from '../ahp';
import { useWords } from './host';
import { Icon } from './Icon';

/** Which of the agent's models answers next; nothing to see where there is one. */
export function ModelPicker(props: {
  agent: string;
  models: readonly SessionModelInfo[];
  value: string | undefined;
  onChange: (id: string) => void;
}): React.ReactElement | null {
  const { t } = useWords();
  const { agent, models, value, onChange } = props;
  if (models.length < 2) {
    return null;
  }
  return (
    <span className="ahp-Pick">
      <select
        aria-label={t('Model of %1', agent)}
        title={t('Model')}
        value={value ?? models[0].id}
        onChange={event => onChange(event.target.value)}
      >
        {models.map(model => (
          <option key={model.id} value={model.id}>
            {model.name || model.id}
          </option>
        ))}
      </select>
      <Icon name="down" />
    </span>
  );
}
