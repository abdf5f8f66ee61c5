// What pi loads to be run by jupyter-ahp: its tools are asked for, the host's tools are offered to its model, and each
// point of a session has a name. It talks through the dialogs of pi's RPC mode: an input dialog with our title carries
// a question as JSON in its placeholder, and is answered in JSON.

const TITLE = 'jupyter-ahp';

async function ask(ctx: any, question: object): Promise<any> {
  const answer = await ctx.ui.input(TITLE, JSON.stringify(question));
  return answer === undefined ? undefined : JSON.parse(answer);
}

function say(ctx: any, key: string, text: string | null | undefined): void {
  ctx.ui.setStatus(`${TITLE}.${key}`, text ?? '');
}

export default function (pi: any): void {
  const ours = new Set<string>();

  pi.on('before_agent_start', async (_event: any, ctx: any) => {
    const tools: any[] = (await ask(ctx, { kind: 'tools' })) ?? [];
    for (const tool of tools) {
      pi.registerTool({
        name: tool.name,
        label: tool.title,
        description: tool.description,
        parameters: tool.parameters,
        async execute(id: string, input: any, _signal: any, _onUpdate: any, ctx: any) {
          const result = await ask(ctx, { kind: 'run', id, name: tool.name, input });
          if (result === undefined || result.failed) {
            throw new Error(result?.text ?? 'It was stopped.');
          }
          return { content: result.content, details: {} };
        }
      });
      ours.add(tool.name);
    }
    const offered = new Set(tools.map(tool => tool.name));
    pi.setActiveTools([
      ...pi.getActiveTools().filter((name: string) => !ours.has(name)),
      ...offered
    ]);
  });

  pi.on('tool_call', async (event: any, ctx: any) => {
    if (ours.has(event.toolName)) {
      return; // it asks for itself
    }
    const answer = await ask(ctx, {
      kind: 'call',
      id: event.toolCallId,
      name: event.toolName,
      input: event.input
    });
    if (!answer?.approved) {
      return { block: true, reason: answer?.reason ?? 'It was stopped.' };
    }
    if (answer.input) {
      for (const key of Object.keys(event.input)) {
        delete event.input[key];
      }
      Object.assign(event.input, answer.input);
    }
  });

  for (const moment of ['session_start', 'turn_end', 'agent_end']) {
    pi.on(moment, (_event: any, ctx: any) => say(ctx, 'leaf', ctx.sessionManager.getLeafId()));
  }

  pi.registerCommand(`${TITLE}-at`, {
    description: 'Go on at a point of this session',
    handler: async (point: string, ctx: any) => {
      try {
        await ctx.navigateTree(point.trim(), { summarize: false });
        say(ctx, 'leaf', ctx.sessionManager.getLeafId());
      } catch (error) {
        say(ctx, 'failed', String(error));
      }
    }
  });

  pi.registerCommand(`${TITLE}-fork`, {
    description: 'Go on in a copy of this session, up to a point of it',
    handler: async (point: string, ctx: any) => {
      try {
        await ctx.fork(point.trim(), { position: 'at' });
      } catch (error) {
        say(ctx, 'failed', String(error));
      }
    }
  });
}
