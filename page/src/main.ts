import "./look/fonts.css"
import "./look/tokens.css"
import "./look/base.css"
import { mount } from "svelte"
import App from "./App.svelte"
import { applyTheme } from "./shell/theme.svelte"

applyTheme()
mount(App, { target: document.body })
