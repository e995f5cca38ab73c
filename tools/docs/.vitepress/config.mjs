// The site of the documents. Its pages are the Markdown files of the repository, and its side bar is the table "Documentation" of the README.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { defineConfig } from 'vitepress'

const source = process.env.STINT_DOCS_SOURCE
const repository = 'https://github.com/stint-dev/stint/blob/main/'

const pages = readFileSync(join(source, 'README.md'), 'utf8').split('## Documentation')[1]
const sidebar = [...pages.matchAll(/^\| ([a-z ]+) \| (.+) \|$/gm)]
  .filter(([, need]) => need !== 'need')
  .map(([, need, links]) => ({
    text: need[0].toUpperCase() + need.slice(1),
    items: [...links.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)]
      .filter(([, , link]) => link.includes('.md'))
      .map(([, text, link]) => ({ text: text[0].toUpperCase() + text.slice(1), link: '/' + link.replace(/\.md/, '').replace(/README$/, '') })),
  }))

// GitHub's anchors, which the links of the pages name.
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

// Links to files that are no pages lead to the repository.
function linkFiles(md) {
  const render = md.renderer.rules.link_open ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options))
  md.core.ruler.push('stint-files', (state) => {
    for (const token of state.tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const [path] = href.split('#')
      const file = normalize(join(dirname(state.env.relativePath ?? ''), path))
      if (!path.endsWith('.md') || !existsSync(join(source, file))) token.attrSet('href', repository + file)
    }
  })
  md.renderer.rules.link_open = render
}

export default defineConfig({
  title: 'Stint',
  description: 'Detects abuse and blocks it',
  srcDir: source,
  outDir: process.env.STINT_DOCS_OUT,
  cacheDir: process.env.STINT_DOCS_CACHE,
  cleanUrls: true,
  lastUpdated: false,
  rewrites: (id) => id.replace(/README\.md$/, 'index.md'),
  markdown: { anchor: { slugify }, config: linkFiles, html: false, languageAlias: { haproxy: 'nginx', caddyfile: 'nginx', nft: 'nginx', txtar: 'txt' } },
  themeConfig: {
    sidebar,
    nav: [{ text: process.env.STINT_DOCS_VERSION, link: '/CHANGELOG' }, { text: 'Settings', link: '/docs/SETTINGS' }],
    outline: 'deep',
    search: { provider: 'local' },
  },
})
